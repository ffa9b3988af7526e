//! What the tests of exactness share: managers of every form of slot, fresh sandboxes to compare
//! with, and looks from both sides.

#![deny(unsafe_code)]

mod fault;
mod form;
mod fresh;
mod look;
mod moment;
mod program;
mod ward;

pub use fault::{Fault, Planted};
pub use form::{FORMS, Form};
pub use fresh::Fresh;
pub use look::{Found, Look, Within};
pub use moment::Moment;
pub use program::program;
pub use ward::Ward;
