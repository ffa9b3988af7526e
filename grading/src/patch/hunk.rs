//! Hunks: found and stepped over, never looked into.

/// Lines of the old and of the new text that a hunk header announces.
pub(super) type Counts = (u64, u64);

/// The counts of `@@ -l,s +l,s @@`, where the line is such a header.
pub(super) fn counts(line: &[u8]) -> Option<Counts> {
    let text = std::str::from_utf8(
        line.strip_prefix(b"@@ -")?
            .split(|byte| *byte == b'@')
            .next()?,
    )
    .ok()?;
    let (old, new) = text.trim_end().split_once(" +")?;
    Some((size(old)?, size(new)?))
}

fn size(range: &str) -> Option<u64> {
    match range.split_once(',') {
        Some((_, size)) => size.parse().ok(),
        None => range.parse::<u64>().ok().map(|_| 1),
    }
}

/// How many of `lines` belong to a hunk with `counts`. None do where the hunk is not complete,
/// so that what a wrong count would swallow is looked at as headers.
pub(super) fn length(lines: &[&[u8]], (mut old, mut new): Counts) -> usize {
    let mut taken = 0;
    for line in lines {
        match line.first() {
            Some(b'\\') => {}
            _ if old == 0 && new == 0 => break,
            Some(b'-') => old = old.saturating_sub(1),
            Some(b'+') => new = new.saturating_sub(1),
            // Mail programs strip the blank of an empty context line.
            Some(b' ' | b'\t') | None => {
                old = old.saturating_sub(1);
                new = new.saturating_sub(1);
            }
            Some(_) => break,
        }
        taken += 1;
    }
    if old == 0 && new == 0 { taken } else { 0 }
}

/// Whether what follows `*** ` is the range of a context hunk (`3,7 ****`), not a name.
pub(super) fn is_context_range(rest: &[u8]) -> bool {
    let range = rest.strip_suffix(b" ****").unwrap_or_default();
    !range.is_empty()
        && range
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b',')
}
