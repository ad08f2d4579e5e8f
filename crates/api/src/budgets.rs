//! Budgets: their documents, permits that reserve from them, and what was spent.

use std::borrow::Cow;
use std::fmt;

use interlock_model::budget::{
    AMOUNT_PATTERN, Amount, DELTA_PATTERN, Delta, OnExhausted, Period, PermitState,
};
use interlock_model::{BudgetName, BudgetRequest, PermitId, RunId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::Time;

/// How long a permit lasts.
pub const TTL_MS_MIN: u64 = 1_000;
pub const TTL_MS_MAX: u64 = 3_600_000;

macro_rules! decimals {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $pattern:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl From<$inner> for $name {
            fn from(number: $inner) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<str>::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .pattern(Some($pattern))
                    .description(Some("A decimal number, as text"))
                    .build()
                    .into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

decimals! {
    /// An amount on the wire: a decimal number as text.
    Decimal(Amount) = AMOUNT_PATTERN;
    /// A change of an amount: the same with a sign.
    SignedDecimal(Delta) = DELTA_PATTERN;
}

/// The document of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetDocument {
    /// What the amounts count, such as `usd`, `tokens` or `calls`.
    #[schema(min_length = 1, max_length = 32, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$")]
    pub unit: String,
    pub amount: Decimal,
    /// How long the amount lasts.
    pub per: Period,
    /// The IANA time zone of the hour, day or month; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    pub timezone: Option<String>,
    /// An expression over `input`, `workflow` and `labels`: each of its values has an amount of its own. Absent: all share
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4096)]
    pub key: Option<String>,
    /// Percentages of the amount, ascending, at which a warning is logged and kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10)]
    pub warn_at: Vec<u8>,
    /// What a step does that finds the budget exhausted.
    #[serde(default)]
    pub on_exhausted: OnExhausted,
}

/// What is counted now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetUsage {
    /// What was settled.
    pub spent: Decimal,
    /// What open permits may still spend.
    pub reserved: Decimal,
    /// What permits had reserved that expired without a settlement. It counts as spent until they are settled.
    pub unsettled: Decimal,
    /// How much of what was settled was not reserved.
    pub overdraft: Decimal,
    /// What operators added, or took away.
    pub adjusted: SignedDecimal,
    pub open_permits: u32,
    /// The amount with increases and adjustments; null for the sum over keys or runs, which have an amount each.
    #[schema(required)]
    pub limit: Option<Decimal>,
    #[schema(required)]
    pub remaining: Option<Decimal>,
}

/// A budget with what is counted of it now: over all of its keys or runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetView {
    pub name: BudgetName,
    #[serde(flatten)]
    pub document: BudgetAnswer,
    /// Raised with every change of the document. Send it as `If-Match` with the next.
    pub revision: u64,
    pub created_at: Time,
    pub updated_at: Time,
    /// When the window began.
    #[schema(required)]
    pub window_from: Option<Time>,
    /// When the next window begins; null if this one never ends by itself.
    #[schema(required)]
    pub resets_at: Option<Time>,
    pub usage: BudgetUsage,
}

/// The document in an answer, which may grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetAnswer {
    pub unit: String,
    pub amount: Decimal,
    pub per: Period,
    #[schema(required)]
    pub timezone: Option<String>,
    #[schema(required)]
    pub key: Option<String>,
    pub warn_at: Vec<u8>,
    pub on_exhausted: OnExhausted,
}

/// One key or run of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetGroupView {
    #[schema(required)]
    pub key: Option<String>,
    #[schema(required)]
    pub run_id: Option<RunId>,
    pub usage: BudgetUsage,
}

/// A budget with its busiest keys or runs, and with what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetDetail {
    #[serde(flatten)]
    pub view: BudgetView,
    /// Those that have spent and reserved the most; or the one that was asked for.
    pub groups: Vec<BudgetGroupView>,
    /// Newest first.
    pub events: Vec<BudgetEventView>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetEventKind {
    /// An operator adjusted it.
    Adjusted,
    /// A threshold was reached.
    Warned,
    /// A kind of a newer server. This one never sends it.
    #[serde(other)]
    Unrecognized,
}

/// What happened to a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetEventView {
    pub time: Time,
    #[schema(inline)]
    pub event: BudgetEventKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// `adjusted`: who, by how much, why, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<SignedDecimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// `warned`: the threshold, and what counted as spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Decimal>,
}

/// Which key or run of a budget to show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BudgetQuery {
    /// Only this key.
    #[param(min_length = 1, max_length = 256)]
    pub key: Option<String>,
    /// Only this run.
    pub run_id: Option<RunId>,
}

/// Reserves a part of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// More than 0.
    pub amount: Decimal,
    /// What is granted if less than the amount is left; the amount if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_amount: Option<Decimal>,
    /// How long the permit lasts unless it is renewed.
    #[schema(minimum = 1_000, maximum = 3_600_000)]
    pub ttl_ms: u64,
    /// The same request with the same id gets the same permit.
    pub request_id: BudgetRequest,
    /// The run whose amount it is, of a budget per run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Whose amount it is, of a budget with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub key: Option<String>,
}

/// A permit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PermitView {
    pub permit: PermitId,
    /// Larger than the fence of every earlier permit and lease of the tenant.
    pub fence: u64,
    pub state: PermitState,
    pub granted: Decimal,
    /// What is left beside it.
    pub remaining: Decimal,
    #[schema(required)]
    pub expires_at: Option<Time>,
    /// When the next window begins. The permit is settled in its own.
    #[schema(required)]
    pub resets_at: Option<Time>,
    /// Whether the same request was granted before.
    pub replayed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewPermitRequest {
    pub permit: PermitId,
    /// How long it lasts from now.
    #[schema(minimum = 1_000, maximum = 3_600_000)]
    pub ttl_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    pub permit: PermitId,
    /// What was spent. It may be more than what was granted.
    pub amount: Decimal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleasePermitRequest {
    pub permit: PermitId,
}

/// What became of a permit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedPermitView {
    pub permit: PermitId,
    pub state: PermitState,
    pub granted: Decimal,
    pub settled: Decimal,
    /// How much of it was not reserved.
    pub overdraft: Decimal,
    pub remaining: Decimal,
}

/// An operator changes what may be spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustRequest {
    /// Added to what may be spent in this window; with a minus sign, taken from it.
    pub delta: SignedDecimal,
    /// Kept with the budget.
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
    /// Makes it a temporary increase, whatever the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Whose amount it is, of a budget with a key. A temporary increase without one is for everyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The same request with the same id changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<BudgetRequest>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_amount_is_text_and_never_a_number() {
        let request = |amount: serde_json::Value| {
            let body = json!({"amount": amount, "ttl_ms": 1_000, "request_id": "r"});
            serde_json::from_value::<ReserveRequest>(body)
        };
        assert_eq!(request(json!("0.05")).unwrap().amount.to_string(), "0.05");
        for wrong in [json!(0.05), json!(5), json!("-1"), json!("1e3"), json!(null)] {
            assert!(request(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
