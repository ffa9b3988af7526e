//! Attributes, access lists, capabilities, modes, owners and times.

use super::Neighbour;

pub(super) const CASES: &[Neighbour] = &[
    Neighbour::open(
        "A11-other-capabilities",
        "setcap cap_net_bind_service+ep /fx/cap; setcap cap_chown+p /usr/bin/git",
        "getcap /fx/cap | grep -q bind_service && getcap /usr/bin/git | grep -q chown",
    ),
    Neighbour::open(
        "A11-attribute-of-equal-length",
        "setfattr -n user.k -v w /fx/f; setfattr -n user.new -v x /usr",
        "test $(getfattr --only-values -n user.k /fx/f) = w && getfattr -n user.new /usr",
    ),
    Neighbour::open(
        "A11-attribute-removed-under-the-old-time",
        "touch -r /fx/f /tmp/r; setfattr -x user.k /fx/f; touch -r /tmp/r /fx/f; rm /tmp/r",
        "! getfattr -n user.k /fx/f",
    ),
    Neighbour::open(
        "A11-large-attribute",
        "python3 -c 'import os; os.setxattr(\"/etc/passwd\", \"user.large\", b\"x\" * 40000)'",
        "test $(getfattr --only-values -n user.large /etc/passwd | wc -c) = 40000",
    ),
    Neighbour::forbidden(
        "A11-attributes-of-the-kernel",
        "setfattr -n trusted.k -v v /fx/f; setfattr -n trusted.overlay.opaque -v y /fx/d",
        "setfattr -n trusted.k -v v /fx/f || setfattr -n trusted.overlay.opaque -v y /fx/d",
    ),
    Neighbour::open(
        "A12-setgid-folder-and-sticky-bit",
        "chmod 2777 /fx/d; chmod 0777 /tmp /var/tmp; chmod 1644 /fx/f",
        "test $(stat -c %a /fx/d /tmp /fx/f | tr '\\n' ' ' | tr -d ' ') = 27777771644",
    ),
    Neighbour::open(
        "A12-folder-that-nobody-may-read",
        "mkdir -p /fx/no/no; echo x >/fx/no/no/x; chmod 0 /fx/no/no/x /fx/no/no /fx/no /fx/d",
        "test $(stat -c %a /fx/d) = 0",
    ),
    Neighbour::open(
        "A12-owner-far-away",
        "chown -R 65534:4242 /fx/d; chown -h 7 /fx/sl; chown 60000 /usr/bin",
        "test $(stat -c %u:%g /fx/d/old) = 65534:4242 && test $(stat -c %u /fx/sl) = 7",
    ),
    Neighbour::open(
        "A13-default-list-on-a-new-folder",
        "mkdir /fx/n; setfacl -d -m u:2:rwx,m:rx /fx/n; mkdir /fx/n/inherits",
        "getfacl -p /fx/n/inherits | grep -q default:user:bin",
    ),
    Neighbour::open(
        "A13-mask-changed-by-chmod",
        "touch -r /fx/f /tmp/r; chmod g= /fx/f; touch -r /tmp/r /fx/f; rm /tmp/r",
        "getfacl -p /fx/f | grep -q mask::---",
    ),
    Neighbour::open(
        "A13-default-list-of-the-root",
        "setfacl -d -m u:1:rx /; setfacl -m g:4:r /etc/shadow",
        "getfacl -p / | grep -q default:user:daemon && getfacl -p /etc/shadow | grep -q group:adm",
    ),
    Neighbour::open(
        "A13-inode-flags",
        "chattr +d /fx/f /fx/d; chattr +A /etc/hosts; chattr +i /fx/h1; chattr +a /fx/d/old; true",
        "true",
    ),
    Neighbour::open(
        "A35-times-out-of-range",
        "touch -d 1969-12-31 /fx/f; touch -d 2100-01-01 /fx/d; touch -h -d 1970-01-02 /fx/sl; touch /",
        "test $(stat -c %Y /fx/f) -lt 0 && test $(stat -c %Y /fx/sl) -lt 200000",
    ),
    Neighbour::open(
        "A35-one-nanosecond",
        "python3 -c 'import os; s = os.stat(\"/usr/bin/env\"); \
         os.utime(\"/usr/bin/env\", ns=(s.st_atime_ns, s.st_mtime_ns + 1)); \
         print(s.st_mtime_ns)' >/run/before",
        "python3 -c 'import os; \
         assert os.stat(\"/usr/bin/env\").st_mtime_ns == int(open(\"/run/before\").read()) + 1'",
    ),
    Neighbour::open(
        "A35-same-listing-other-folder",
        "cp -a /usr/share/perl5 /tmp/p; rm -r /usr/share/perl5; mv /tmp/p /usr/share/perl5",
        "test -d /usr/share/perl5",
    ),
];
