//! The small language of hostile rollouts.
//!
//! A [`Script`] is text: an operation a line, a verb and its arguments with spaces between, `#` for
//! remarks. Bytes that are no plain text are written `\xNN`, so that any file name can stand in it.
//! People can read it, cut it down with an editor, and keep it.
//!
//! What verbs there are, of which [`Kind`], and what their arguments look like is one table,
//! [`verbs`]. The generator draws from it, the shrinker makes arguments smaller by it, and the guest
//! has a deed for each line of it.

#![forbid(unsafe_code)]

mod kind;
mod script;
mod verb;
mod verbs;
mod word;

pub use kind::Kind;
pub use script::{Operation, ParseError, Script};
pub use verb::{Shape, Verb};
pub use verbs::{find, verbs};
pub use word::Word;
