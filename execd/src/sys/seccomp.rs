//! The system call filter of every guest: an allow-list with the semantics of Docker's
//! default profile, less what reaches beyond a sandbox, compiled to a binary tree.
//!
//! The kernel runs a new filter once per system call number to build its bitmap, so a
//! linear list of 300 numbers costs a millisecond to install and a tree a tenth of it:
//! that is why this is not a filter of `seccompiler`, which emits linear chains.

mod allowed;

use std::io;

use super::check;

const RET_ALLOW: u32 = 0x7fff_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const ARCH: u32 = if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0xc000_003e
};
const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGUMENT_0: u32 = 16;

/// CLONE_NEW* of a sandbox's own making: mount, cgroup, uts, ipc, user, pid, net.
const CLONE_NAMESPACES: u32 = 0x7e02_0000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Errno(i32),
    /// clone without namespaces.
    Clone,
    /// personality 0, 8, 0x20000, 0x20008 and the query.
    Personality,
    /// socket but for families that reach beyond the sandbox's namespaces.
    Socket,
}

/// A compiled filter.
#[derive(Debug, Clone)]
pub struct Filter(Vec<libc::sock_filter>);

impl Filter {
    /// The filter of guests.
    pub fn guest() -> Self {
        let mut code = vec![
            statement(LOAD, OFFSET_ARCH),
            jump(JUMP_EQUAL, ARCH, 1, 0),
            statement(RETURN, RET_ERRNO | libc::EPERM as u32),
            statement(LOAD, OFFSET_NUMBER),
        ];
        tree(&segments(), &mut code);
        Self(code)
    }

    /// None at all: installing it does nothing.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Installs it on this process. Needs CAP_SYS_ADMIN in the user namespace, since
    /// no_new_privs stays off: setuid programs work inside.
    pub fn install(&self) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let program = libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: the program outlives the call; the kernel copies it.
        check(unsafe { libc::syscall(libc::SYS_seccomp, 1, 0, &raw const program) }).map(drop)
    }
}

/// (first number, verdict) in ascending order, covering every number.
fn segments() -> Vec<(u32, Verdict)> {
    let mut verdicts: Vec<(u32, Verdict)> = allowed::NUMBERS
        .iter()
        .map(|n| (*n as u32, Verdict::Allow))
        .collect();
    verdicts.extend([
        (libc::SYS_clone as u32, Verdict::Clone),
        // Its flags lie in memory, where a filter cannot look; glibc falls back to clone.
        (libc::SYS_clone3 as u32, Verdict::Errno(libc::ENOSYS)),
        (libc::SYS_personality as u32, Verdict::Personality),
        (libc::SYS_socket as u32, Verdict::Socket),
    ]);
    verdicts.sort_unstable_by_key(|(n, _)| *n);
    verdicts.dedup_by_key(|(n, _)| *n);
    let denied = Verdict::Errno(libc::EPERM);
    let mut out: Vec<(u32, Verdict)> = Vec::new();
    let mut next = 0;
    for (number, verdict) in verdicts {
        if number > next {
            out.push((next, denied));
        }
        out.push((number, verdict));
        next = number + 1;
    }
    out.push((next, denied));
    out.dedup_by(|later, earlier| later.1 == earlier.1);
    out
}

fn tree(segments: &[(u32, Verdict)], code: &mut Vec<libc::sock_filter>) {
    let (left, right) = segments.split_at(segments.len() / 2);
    if left.is_empty() {
        return leaf(right[0].1, code);
    }
    let at = code.len();
    code.push(jump(JUMP_AT_LEAST, right[0].0, 0, 0));
    tree(left, code);
    // The left half is never longer than 255 instructions: see the test.
    code[at].jt = (code.len() - at - 1) as u8;
    tree(right, code);
}

fn leaf(verdict: Verdict, code: &mut Vec<libc::sock_filter>) {
    let allow = statement(RETURN, RET_ALLOW);
    let deny = |errno: i32| statement(RETURN, RET_ERRNO | errno as u32);
    match verdict {
        Verdict::Allow => code.push(allow),
        Verdict::Errno(errno) => code.push(deny(errno)),
        Verdict::Clone => code.extend([
            statement(LOAD, OFFSET_ARGUMENT_0),
            jump(JUMP_ANY_BIT, CLONE_NAMESPACES, 0, 1),
            deny(libc::EPERM),
            allow,
        ]),
        Verdict::Personality => code.extend([
            statement(LOAD, OFFSET_ARGUMENT_0),
            jump(JUMP_EQUAL, 0, 5, 0),
            jump(JUMP_EQUAL, 8, 4, 0),
            jump(JUMP_EQUAL, 0x2_0000, 3, 0),
            jump(JUMP_EQUAL, 0x2_0008, 2, 0),
            jump(JUMP_EQUAL, 0xffff_ffff, 1, 0),
            deny(libc::EPERM),
            allow,
        ]),
        Verdict::Socket => code.extend([
            statement(LOAD, OFFSET_ARGUMENT_0),
            jump(JUMP_EQUAL, libc::AF_ALG as u32, 1, 0),
            jump(JUMP_EQUAL, libc::AF_VSOCK as u32, 0, 1),
            deny(libc::EPERM),
            allow,
        ]),
    }
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter for one call, as the kernel would.
    fn judge(filter: &Filter, arch: u32, number: u32, argument: u32) -> u32 {
        let mut at = 0usize;
        let mut a = 0u32;
        loop {
            let i = filter.0[at];
            at += 1;
            match i.code {
                LOAD => {
                    a = match i.k {
                        OFFSET_ARCH => arch,
                        OFFSET_NUMBER => number,
                        _ => argument,
                    }
                }
                JUMP_EQUAL => at += usize::from(if a == i.k { i.jt } else { i.jf }),
                JUMP_AT_LEAST => at += usize::from(if a >= i.k { i.jt } else { i.jf }),
                JUMP_ANY_BIT => at += usize::from(if a & i.k != 0 { i.jt } else { i.jf }),
                other => {
                    assert_eq!(other, RETURN);
                    return i.k;
                }
            }
        }
    }

    #[test]
    fn every_number_gets_the_verdict_of_the_list() {
        let filter = Filter::guest();
        let special = [
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_personality,
            libc::SYS_socket,
        ];
        for number in 0..1200u32 {
            if special.contains(&i64::from(number)) {
                continue;
            }
            let want = if allowed::NUMBERS.contains(&i64::from(number)) {
                RET_ALLOW
            } else {
                RET_ERRNO | libc::EPERM as u32
            };
            assert_eq!(
                judge(&filter, ARCH, number, 0),
                want,
                "system call {number}"
            );
        }
    }

    #[test]
    fn arguments_decide_where_the_number_does_not() {
        let filter = Filter::guest();
        let eperm = RET_ERRNO | libc::EPERM as u32;
        let ask = |number: i64, argument: u32| judge(&filter, ARCH, number as u32, argument);
        assert_eq!(ask(libc::SYS_clone, libc::SIGCHLD as u32), RET_ALLOW);
        assert_eq!(ask(libc::SYS_clone, libc::CLONE_NEWUSER as u32), eperm);
        assert_eq!(ask(libc::SYS_clone3, 0), RET_ERRNO | libc::ENOSYS as u32);
        assert_eq!(ask(libc::SYS_personality, 0x2_0000), RET_ALLOW);
        assert_eq!(ask(libc::SYS_personality, 0x40_0000), eperm);
        assert_eq!(ask(libc::SYS_socket, libc::AF_INET as u32), RET_ALLOW);
        assert_eq!(ask(libc::SYS_socket, libc::AF_VSOCK as u32), eperm);
        assert_eq!(ask(libc::SYS_socket, libc::AF_ALG as u32), eperm);
        assert_eq!(
            judge(&filter, 0x4000_0003, 0, 0),
            eperm,
            "another architecture"
        );
    }

    #[test]
    fn the_tree_is_shallow_enough_for_its_jumps() {
        // A jump over more than 255 instructions would have wrapped and judged wrongly above;
        // this bounds the cost of installing too.
        assert!(
            Filter::guest().0.len() < 250,
            "{} instructions",
            Filter::guest().0.len()
        );
    }
}
