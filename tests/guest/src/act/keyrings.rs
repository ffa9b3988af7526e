//! Kernel keyrings.

use std::io;

use super::deed::{After, Arguments, Deed};
use super::files::done;
use super::sys::call;

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("add-key", add_key),
    ("join-session", join_session),
    ("read-ring", |a| ring_call(a, KEYCTL_READ)),
    ("clear-ring", |a| ring_call(a, KEYCTL_CLEAR)),
    ("request-key", request_key),
];

const KEYCTL_JOIN: i32 = 1;
const KEYCTL_CLEAR: i32 = 7;
const KEYCTL_READ: i32 = 11;

/// The kernel's numbers for rings that are always there.
fn ring(a: &Arguments<'_>) -> i32 {
    match a.bytes(0) {
        b"thread" => -1,
        b"process" => -2,
        b"session" => -3,
        b"user" => -4,
        _ => -5,
    }
}

fn add_key(a: &Arguments<'_>) -> io::Result<After> {
    let (kind, name, value) = (a.name(1), a.name(2), a.bytes(3));
    let (kind, name) = (kind.as_c_str(), name.as_c_str());
    done(call!(
        libc::SYS_add_key,
        kind,
        name,
        value,
        value.len(),
        ring(a)
    ))
}

fn join_session(a: &Arguments<'_>) -> io::Result<After> {
    let name = a.name(0);
    call!(libc::SYS_keyctl, KEYCTL_JOIN, name.as_c_str())?;
    Ok(After::Stay)
}

fn ring_call(a: &Arguments<'_>, what: i32) -> io::Result<After> {
    let mut some = [0; 64];
    done(call!(
        libc::SYS_keyctl,
        what,
        ring(a),
        some.as_mut_slice(),
        64
    ))
}

fn request_key(a: &Arguments<'_>) -> io::Result<After> {
    let name = a.name(0);
    done(call!(
        libc::SYS_request_key,
        c"user",
        name.as_c_str(),
        0,
        -3
    ))
}
