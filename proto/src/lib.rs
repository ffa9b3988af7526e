//! Wire types of innkeeper and the limits that both ends share.
//!
//! The messages stand in `innkeeper/v1/*.proto`; `src/gen` is generated from them by
//! `proto/codegen` and committed, so that a build needs no protoc. A test compares the two.

pub mod limits;

/// Messages, clients and servers of `innkeeper.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    include!("gen/innkeeper.v1.rs");
}
