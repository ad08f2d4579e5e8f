//! What a function may return instead of doing its work.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

/// Constants of the function's type, as code. An empty one stands for nothing at all.
pub(crate) fn returned(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, returned) => values(returned),
    }
}

fn values(of: &Type) -> Vec<String> {
    if let Type::Tuple(tuple) = of
        && tuple.elems.is_empty()
    {
        return vec!["()".to_owned()];
    }
    let Type::Path(path) = of else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let constants: &[&str] = match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        "Vec" => &["Vec::new()"],
        "String" => &["String::new()"],
        "usize" | "u64" | "u32" | "u16" | "i64" => &["0", "1"],
        "Result" => {
            let inner = first_argument(&last.arguments).map(|inner| values(&inner)).unwrap_or_default();
            return inner.into_iter().map(|value| format!("Ok({value})")).collect();
        }
        _ => &[],
    };
    constants.iter().map(|constant| (*constant).to_owned()).collect()
}

fn first_argument(arguments: &PathArguments) -> Option<Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| {
        if let GenericArgument::Type(inner) = argument { Some(inner.clone()) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_constants_of_its_type() {
        let of = |signature: &str| {
            let function: syn::ItemFn = syn::parse_str(&format!("{signature} {{ todo() }}")).unwrap();
            returned(&function.sig.output)
        };
        assert_eq!(of("fn f()"), [""]);
        assert_eq!(of("fn f() -> bool"), ["true", "false"]);
        assert_eq!(of("fn f() -> Result<(), Error>"), ["Ok(())"]);
        assert_eq!(of("async fn f() -> Result<Option<u8>>"), ["Ok(None)"]);
        assert_eq!(of("fn f() -> Job"), [""; 0]);
    }
}
