//! The content-addressed image store and its importers.
