//! The files of an image by their names, in a folder or in an archive.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::archive::Archive;
use crate::error::Error;
use crate::limits::MAX_JSON_BYTES;

pub(super) enum Files {
    Folder(PathBuf),
    Archive(Archive),
}

impl Files {
    /// The file of this name and its size; an error that says so if there is none.
    pub(super) fn open(&self, name: &str) -> Result<(Box<dyn Read + Send>, u64), Error> {
        match self {
            Files::Archive(archive) => {
                let range = archive.open(name).ok_or_else(|| self.lacks(name))?;
                let size = range.size();
                Ok((Box::new(range), size))
            }
            Files::Folder(folder) => {
                if name.split('/').any(|part| part == ".." || part.is_empty()) {
                    return Err(self.lacks(name));
                }
                let path = folder.join(name);
                let file = match File::open(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(self.lacks(name));
                    }
                    opened => opened.map_err(Error::io("opened", &path))?,
                };
                let size = file.metadata().map_err(Error::io("read", &path))?.len();
                Ok((Box::new(file), size))
            }
        }
    }

    /// A small file whole.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let (file, size) = self.open(name)?;
        if size > MAX_JSON_BYTES {
            return Err(self.damaged(format!(
                "`{name}` is {size} bytes long, too long for what it should be"
            )));
        }
        let mut bytes = Vec::new();
        file.take(MAX_JSON_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| self.damaged(format!("`{name}`: {error}")))?;
        Ok(bytes)
    }

    fn lacks(&self, name: &str) -> Error {
        self.damaged(format!("it lacks `{name}`"))
    }

    pub(super) fn damaged(&self, what: String) -> Error {
        let path = match self {
            Files::Folder(path) => path,
            Files::Archive(archive) => archive.path(),
        };
        Error::Damaged {
            source_name: path.display().to_string(),
            what,
        }
    }
}
