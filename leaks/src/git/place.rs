//! Where a work tree's repository is.

use crate::ground::{Ground, join, text};

use super::{Error, damaged};

/// Bytes of the small files that point elsewhere.
const POINTER: u64 = 16 << 10;

/// Bytes of a configuration.
const CONFIG: u64 = 1 << 20;

/// Directories above the work tree in which a repository is looked for.
const UP: usize = 64;

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The work tree's own part: HEAD, index, special heads.
    pub(crate) own: Vec<u8>,
    /// What all of its work trees share: objects and refs.
    pub(crate) common: Vec<u8>,
    /// The top of the work tree.
    pub(crate) top: Vec<u8>,
}

/// The repository of a directory or of one above it; None where there is none.
pub(crate) fn find(ground: &Ground, workdir: &[u8]) -> Result<Option<Place>, Error> {
    let mut top = join(b"/", workdir.trim_ascii());
    for _ in 0..UP {
        while top.len() > 1 && top.ends_with(b"/") {
            top.pop();
        }
        if let Some(own) = own(ground, &top)? {
            let common = common(ground, &own)?;
            check_format(ground, &common)?;
            return Ok(Some(Place { own, common, top }));
        }
        match top.iter().rposition(|byte| *byte == b'/') {
            Some(_) if top.len() == 1 => break,
            Some(slash) => top.truncate(slash.max(1)),
            None => break,
        }
    }
    Ok(None)
}

fn own(ground: &Ground, top: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let dot = join(top, b".git");
    if ground.is_directory(&dot) {
        return Ok(Some(dot));
    }
    match ground.read(&dot, POINTER) {
        Ok(bytes) => {
            let path = bytes.strip_prefix(b"gitdir: ").map(<[u8]>::trim_ascii);
            let path = path.ok_or_else(|| damaged(&text(&dot), "it names no gitdir"))?;
            Ok(Some(from(top, path)))
        }
        Err(error) if error.is_absent() => {
            let bare = ["objects", "refs"]
                .iter()
                .all(|name| ground.is_directory(&join(top, name.as_bytes())));
            let bare = bare && ground.file(&join(top, b"HEAD")).is_ok();
            Ok(bare.then(|| top.to_vec()))
        }
        Err(error) => Err(error.into()),
    }
}

fn common(ground: &Ground, own: &[u8]) -> Result<Vec<u8>, Error> {
    match ground.read(&join(own, b"commondir"), POINTER) {
        Ok(path) => Ok(from(own, path.trim_ascii())),
        Err(error) if error.is_absent() => Ok(own.to_vec()),
        Err(error) => Err(error.into()),
    }
}

/// A path as it is meant in a directory. `..` in it is the kernel's to resolve.
pub(crate) fn from(directory: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        path.to_vec()
    } else {
        join(directory, path)
    }
}

/// Formats that this reader would misread are refused by name.
fn check_format(ground: &Ground, common: &[u8]) -> Result<(), Error> {
    let config = match ground.read(&join(common, b"config"), CONFIG) {
        Ok(config) => config,
        Err(error) if error.is_absent() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for line in text(&config).lines() {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim().to_lowercase(), value.trim().to_lowercase());
        let known = match name.as_str() {
            "objectformat" => value == "sha1",
            "refstorage" => value == "files",
            _ => true,
        };
        if !known {
            return Err(Error::Unknown(format!(
                "a repository with {name} = {value}"
            )));
        }
    }
    Ok(())
}
