//! Reading the log, over the moments at which its file is put aside.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::{Line, aside};
use crate::state::{Error, failed};

/// A position in the log.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    last: watch::Receiver<u64>,
    file: Option<BufReader<File>>,
    /// Events up to this one are skipped.
    since: u64,
    partial: Vec<u8>,
}

impl Reader {
    pub(super) fn new(path: &Path, last: watch::Receiver<u64>, since: u64) -> Self {
        Self {
            path: path.to_owned(),
            last,
            file: None,
            since,
            partial: Vec::new(),
        }
    }

    /// The next event that is in the log by now; None at its end.
    pub fn next_written(&mut self) -> Result<Option<Line>, Error> {
        if self.file.is_none() {
            // The oldest that is kept comes first.
            self.file = match open(&aside(&self.path))? {
                Some(file) => Some(file),
                None => open(&self.path)?,
            };
        }
        loop {
            if let Some(line) = self.next_of_file()? {
                return Ok(Some(line));
            }
            let Some(following) = self.following()? else {
                return Ok(None);
            };
            // What was written between the look at its end and its being put aside.
            if let Some(line) = self.next_of_file()? {
                return Ok(Some(line));
            }
            self.partial.clear();
            self.file = Some(following);
        }
    }

    /// The next event, waiting for it; None once the log is closed. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Line>, Error> {
        loop {
            if let Some(line) = self.next_written()? {
                return Ok(Some(line));
            }
            if self.last.changed().await.is_err() {
                return self.next_written();
            }
        }
    }

    fn next_of_file(&mut self) -> Result<Option<Line>, Error> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        loop {
            file.read_until(b'\n', &mut self.partial)
                .map_err(failed("reading", &self.path))?;
            if !self.partial.ends_with(b"\n") {
                return Ok(None);
            }
            let line = serde_json::from_slice::<Line>(&self.partial).ok();
            self.partial.clear();
            if let Some(line) = line.filter(|line| line.seq > self.since) {
                self.since = line.seq;
                return Ok(Some(line));
            }
        }
    }

    /// The file after the one that is read to its end; None where that is the present one.
    fn following(&self) -> Result<Option<BufReader<File>>, Error> {
        let fail = || failed("reading", &self.path);
        let Some(now) = open(&self.path)? else {
            return Ok(None);
        };
        let inode = |file: &BufReader<File>| file.get_ref().metadata().map(|data| data.ino());
        match &self.file {
            Some(file) if inode(file).map_err(fail())? == inode(&now).map_err(fail())? => Ok(None),
            Some(_) | None => Ok(Some(now)),
        }
    }
}

fn open(path: &Path) -> Result<Option<BufReader<File>>, Error> {
    match File::open(path) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("opening", path)(error)),
    }
}
