//! Capture, digest and verify: the proof that a sandbox equals its baseline.
