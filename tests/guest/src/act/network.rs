//! Sockets, listeners, interfaces.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::deed::{After, Arguments, Deed};
use super::files::done;
use super::held::keep;
use super::sys::{self, call};

pub(super) const DEEDS: &[(&str, Deed)] = &[
    ("tcp-listen", |a| {
        keep(TcpListener::bind(("0.0.0.0", port(a)))?)
    }),
    ("tcp6-listen", |a| keep(TcpListener::bind(("::", port(a)))?)),
    ("tcp-pair", tcp_pair),
    ("tcp-half-closed", tcp_half_closed),
    ("udp-bind", |a| keep(UdpSocket::bind(("0.0.0.0", port(a)))?)),
    ("unix-listen", |a| keep(UnixListener::bind(a.path(0))?)),
    ("abstract-listen", abstract_listen),
    ("unix-passing", |_| unix_passing()),
    ("packet-socket", |_| {
        keep(socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?)
    }),
    ("raw-socket", |_| {
        keep(socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)?)
    }),
    ("netlink-socket", netlink),
    ("other-family", other_family),
    ("interface-down", interface_down),
    ("interface-address", interface_address),
    ("multicast", multicast),
];

fn port(a: &Arguments<'_>) -> u16 {
    u16::try_from(a.number(0)).unwrap_or(1)
}

fn last(a: &Arguments<'_>) -> u8 {
    u8::try_from(a.number(0)).unwrap_or(1)
}

/// A socket of any family.
pub(super) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    sys::descriptor(call!(
        libc::SYS_socket,
        family,
        kind | libc::SOCK_CLOEXEC,
        protocol
    ))
}

fn pair(a: &Arguments<'_>) -> io::Result<(TcpListener, TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", port(a)))?;
    let client = TcpStream::connect(("127.0.0.1", port(a)))?;
    let (server, _) = listener.accept()?;
    Ok((listener, client, server))
}

fn tcp_pair(a: &Arguments<'_>) -> io::Result<After> {
    keep(pair(a)?)
}

/// Closed from the server's side first: its port waits on when everything has gone.
fn tcp_half_closed(a: &Arguments<'_>) -> io::Result<After> {
    let (listener, client, server) = pair(a)?;
    drop(server);
    drop(client);
    drop(listener);
    Ok(After::End)
}

fn abstract_listen(a: &Arguments<'_>) -> io::Result<After> {
    let address = SocketAddr::from_abstract_name(a.bytes(0))?;
    keep(UnixListener::bind_addr(&address)?)
}

/// A socket on its way through itself: no process holds it, and it lives all the same.
fn unix_passing() -> io::Result<After> {
    let (one, other) = UnixStream::pair()?;
    let passed = [one.as_fd(), other.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&passed));
    sendmsg(
        &one,
        &[IoSlice::new(b"x")],
        &mut control,
        SendFlags::empty(),
    )?;
    Ok(After::End)
}

fn netlink(a: &Arguments<'_>) -> io::Result<After> {
    let protocol = a.number(0) as i32;
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
    // struct sockaddr_nl: every group there is.
    let mut address = [0; 12];
    address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
    address[8..].copy_from_slice(&[0xff; 4]);
    call!(libc::SYS_bind, &socket, address.as_slice(), 12)?;
    keep(socket)
}

fn other_family(a: &Arguments<'_>) -> io::Result<After> {
    let family = a.number(0) as i32;
    let kinds = [
        libc::SOCK_STREAM,
        libc::SOCK_DGRAM,
        libc::SOCK_SEQPACKET,
        libc::SOCK_RAW,
    ];
    let mut last = Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
    for kind in kinds {
        last = socket(family, kind, 0);
        if last.is_ok() {
            break;
        }
    }
    keep(last?)
}

/// struct ifreq: a name and a value.
fn request(name: &[u8], value: &[u8]) -> [u8; 40] {
    let mut request = [0; 40];
    let length = name.len().min(15);
    request[..length].copy_from_slice(&name[..length]);
    request[16..16 + value.len()].copy_from_slice(value);
    request
}

fn interface_down(a: &Arguments<'_>) -> io::Result<After> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let down = request(a.bytes(0), &0_u16.to_ne_bytes());
    done(call!(
        libc::SYS_ioctl,
        &socket,
        libc::SIOCSIFFLAGS,
        down.as_slice()
    ))
}

fn interface_address(a: &Arguments<'_>) -> io::Result<After> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let family = (libc::AF_INET as u16).to_ne_bytes();
    let address = [family[0], family[1], 0, 0, 10, 9, 9, last(a)];
    let request = request(b"lo:1", &address);
    done(call!(
        libc::SYS_ioctl,
        &socket,
        libc::SIOCSIFADDR,
        request.as_slice()
    ))
}

fn multicast(a: &Arguments<'_>) -> io::Result<After> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.join_multicast_v4(&Ipv4Addr::new(239, 1, 1, last(a)), &Ipv4Addr::LOCALHOST)?;
    keep(socket)
}
