//! A verb of the store is a value: a request type with its answer, its names, and whether it writes.

use std::fmt::Debug;

use crate::verbs::{Answer, Request};

/// One atomic step of the store. The type is the request; it is in the file of its noun.
pub trait Verb: Debug + Clone + Send + Sync + Sized + 'static {
    type Answer: Debug + PartialEq + Send + 'static;

    /// For metrics, logs and scripts.
    const NAME: &'static str;

    /// What it tries to do, for errors: "could not …".
    const ACTION: &'static str;

    const WRITES: bool;

    fn into_request(self) -> Request;

    fn wrap(answer: Self::Answer) -> Answer;

    /// None: the answer is another verb's.
    fn unwrap(answer: Answer) -> Option<Self::Answer>;
}

/// A verb that changes nothing.
pub trait ReadVerb: Verb {}

/// Declares a request type as a verb: `verb!(write => Admit, "admit", "admit a run", StartOutcome)`.
macro_rules! verb {
    (read => $verb:ident, $name:literal, $action:literal, $answer:ty) => {
        impl $crate::verb::ReadVerb for $verb {}
        $crate::verb::verb!(@ $verb, $name, $action, $answer, false);
    };
    (write => $verb:ident, $name:literal, $action:literal, $answer:ty) => {
        $crate::verb::verb!(@ $verb, $name, $action, $answer, true);
    };
    (@ $verb:ident, $name:literal, $action:literal, $answer:ty, $writes:literal) => {
        impl $crate::verb::Verb for $verb {
            type Answer = $answer;
            const NAME: &'static str = $name;
            const ACTION: &'static str = $action;
            const WRITES: bool = $writes;

            fn into_request(self) -> $crate::verbs::Request {
                $crate::verbs::Request::$verb(self)
            }

            fn wrap(answer: $answer) -> $crate::verbs::Answer {
                $crate::verbs::Answer::$verb(answer)
            }

            fn unwrap(answer: $crate::verbs::Answer) -> Option<$answer> {
                match answer {
                    $crate::verbs::Answer::$verb(answer) => Some(answer),
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use verb;
