//! What the tests of exactness share: managers of every form of slot, fresh sandboxes to compare
//! with, and looks from both sides.

mod form;
mod fresh;
mod look;
mod program;
mod ward;

pub use form::{FORMS, Form};
pub use fresh::Fresh;
pub use look::{Found, Look};
pub use program::program;
pub use ward::Ward;
