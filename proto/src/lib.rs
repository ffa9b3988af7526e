//! Wire types of innkeeper and the limits that both ends share.
