//! What Lua packed with `cmsgpack`, read as the type that is wanted.
//!
//! A hash in Redis holds texts. What a text means follows from the type: a number is parsed, and where a structure is
//! wanted, the text is its JSON document. A duration is in milliseconds. An enum is a table with the name of the variant
//! as `outcome` (or `refused`) beside the variant's fields, or with the variant's only value as `value`.

use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

/// A reply that is not what the script promises: a bug, or foreign data under our names.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

impl serde::de::Error for Unreadable {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// The reply of a script, or a part of it.
#[derive(Debug)]
pub(crate) enum Value<'de> {
    /// Also `false`, which Redis gives to scripts for what is absent.
    Absent,
    True,
    Number(i64),
    Text(&'de [u8]),
    /// Also a table without fields.
    List(Vec<Self>),
    Map(Vec<(&'de str, Self)>),
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unpack)
    }
}

struct Unpack;

impl<'de> Visitor<'de> for Unpack {
    type Value = Value<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("what cmsgpack writes")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Absent)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value<'de>, E> {
        Ok(if flag { Value::True } else { Value::Absent })
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value<'de>, E> {
        i64::try_from(number).map(Value::Number).map_err(E::custom)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(text.as_bytes()))
    }

    fn visit_borrowed_bytes<E>(self, text: &'de [u8]) -> Result<Value<'de>, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0));
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value<'de>, A::Error> {
        let mut map = Vec::with_capacity(fields.size_hint().unwrap_or(0));
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(Value::Map(map))
    }
}

impl<'de> Value<'de> {
    /// Puts large texts where the script only named them: see `elsewhere` in `lua/shared/call.lua`.
    pub(super) fn put_in(&mut self, texts: &'de [redis::Value]) {
        match self {
            Self::Map(fields) => {
                if let [("elsewhere", Self::Number(number))] = fields[..] {
                    let text = usize::try_from(number - 1).ok().and_then(|at| texts.get(at));
                    if let Some(redis::Value::BulkString(text)) = text {
                        *self = Self::Text(text);
                    }
                } else {
                    for (_, value) in fields {
                        value.put_in(texts);
                    }
                }
            }
            Self::List(items) => {
                for item in items {
                    item.put_in(texts);
                }
            }
            Self::Absent | Self::True | Self::Number(_) | Self::Text(_) => {}
        }
    }
}

impl Value<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Map(fields) => fields.is_empty(),
            Self::True | Self::Number(_) => false,
        }
    }

    pub(crate) fn into_items(self) -> Vec<Self> {
        if let Self::List(items) = self { items } else { Vec::new() }
    }

    /// A number, also one that is written as text.
    fn into_number(self) -> Result<Self, Unreadable> {
        let Self::Text(text) = self else { return Ok(self) };
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.map(Self::Number).ok_or_else(|| {
            Unreadable(format!("{:?} where a number was expected", String::from_utf8_lossy(text)))
        })
    }
}

impl<'de> IntoDeserializer<'de, Unreadable> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A document.
fn parse<'de, T>(
    text: &'de [u8],
    read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::SliceRead<'de>>) -> serde_json::Result<T>,
) -> Result<T, Unreadable> {
    let mut document = serde_json::Deserializer::from_slice(text);
    let value = read(&mut document)?;
    document.end()?;
    Ok(value)
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
            self.into_number()?.deserialize_any(visitor)
        })*
    };
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a value is what it is, unless the wanted type says more")]
impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Unreadable;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self {
            Self::Absent => visitor.visit_unit(),
            Self::True => visitor.visit_bool(true),
            Self::Number(number) => visitor.visit_i64(number),
            Self::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => visitor.visit_borrowed_str(text),
                Err(_) => visitor.visit_borrowed_bytes(text),
            },
            Self::List(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter())),
            Self::Map(fields) => visitor.visit_map(Fields::new(fields)),
        }
    }

    numbers!(deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64);
    numbers!(deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_bool(!self.is_empty() && !matches!(self, Self::Text(b"0")))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self {
            Self::Number(number) => visitor.visit_string(number.to_string()),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        if self.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self {
            Self::Text(text) => parse(text, |document| document.deserialize_seq(visitor)),
            other => other.deserialize_any(visitor),
        }
    }

    /// Also a list of names and values in turn, as HGETALL gives them.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self {
            Self::Text(text) => parse(text, |document| document.deserialize_map(visitor)),
            Self::List(items) => {
                let mut items = items.into_iter();
                let pairs = std::iter::from_fn(|| items.next().zip(items.next()));
                visitor.visit_map(MapDeserializer::new(pairs))
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        match self {
            time @ (Self::Number(_) | Self::Text(_)) if name == "Duration" => {
                let millis = u64::deserialize(time)?;
                visitor
                    .visit_seq(SeqDeserializer::new([millis / 1_000, millis % 1_000 * 1_000_000].into_iter()))
            }
            Self::Text(text) => parse(text, |document| document.deserialize_struct(name, fields, visitor)),
            Self::List(items) if items.is_empty() => visitor.visit_map(Fields::new(Vec::new())),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        match self {
            Self::Text(text) if text.starts_with(b"{") || text.starts_with(b"\"") => {
                parse(text, |document| document.deserialize_enum(name, variants, visitor))
            }
            Self::Text(text) => {
                let variant = std::str::from_utf8(text).map_err(Unreadable::custom)?;
                visitor.visit_enum(BorrowedStrDeserializer::new(variant))
            }
            Self::Map(mut fields) => {
                let tag = fields.iter().position(|(name, _)| matches!(*name, "outcome" | "refused"));
                let tag = tag.ok_or_else(|| Unreadable::missing_field("outcome"))?;
                let (_, variant) = fields.swap_remove(tag);
                visitor.visit_enum(Variant { variant, fields })
            }
            other => other.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char str bytes byte_buf unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// Fields of a table. An error names the one that it is about.
struct Fields<'de> {
    rest: std::vec::IntoIter<(&'de str, Value<'de>)>,
    current: Option<(&'de str, Value<'de>)>,
}

impl<'de> Fields<'de> {
    fn new(fields: Vec<(&'de str, Value<'de>)>) -> Self {
        Self { rest: fields.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Unreadable;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unreadable> {
        self.current = self.rest.next();
        let name = self.current.as_ref().map(|(name, _)| BorrowedStrDeserializer::new(name));
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Unreadable> {
        let (name, value) =
            self.current.take().ok_or_else(|| Unreadable::custom("a value without a name"))?;
        seed.deserialize(value).map_err(|error| Unreadable(format!("{name}: {error}")))
    }
}

/// A variant of an enum, with what it holds.
struct Variant<'de> {
    variant: Value<'de>,
    fields: Vec<(&'de str, Value<'de>)>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Unreadable;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<(S::Value, Self), Unreadable> {
        let variant = std::mem::replace(&mut self.variant, Value::Absent);
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Unreadable;

    fn unit_variant(self) -> Result<(), Unreadable> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Unreadable> {
        let value = self.fields.into_iter().find(|(name, _)| *name == "value");
        seed.deserialize(value.ok_or_else(|| Unreadable::missing_field("value"))?.1)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Unreadable> {
        Err(Unreadable::custom("no script answers with a tuple"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        visitor.visit_map(Fields::new(self.fields))
    }
}
