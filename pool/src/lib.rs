//! The pure pool core: events and a time in, actions out.
