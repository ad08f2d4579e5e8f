//! Enums whose variants have one stable name, used in JSON, filters, metrics and messages.

/// Declares an enum and the name of each variant once, so that serde, `name`, `named`, `ALL` and the schema
/// cannot drift apart.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $type {
            $($(#[$variant_meta])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant,)*];

            /// The stable name, as written in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The variant with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.name() == name)
            }
        }

        impl $crate::utoipa::PartialSchema for $type {
            fn schema() -> $crate::utoipa::openapi::RefOr<$crate::utoipa::openapi::Schema> {
                let names = $crate::utoipa::openapi::ObjectBuilder::new().enum_values(Some(Self::ALL.map(Self::name)));
                names.schema_type($crate::utoipa::openapi::Type::String).into()
            }
        }

        impl $crate::utoipa::ToSchema for $type {}
    };
}
