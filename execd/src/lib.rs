//! The daemon that builds sandboxes, runs commands in them, moves files and resets.
