//! All objects of a repository: loose, packed, and those of its alternates.

use std::collections::HashMap;
use std::fs::File;
use std::rc::Rc;
use std::time::Instant;

use crate::ground::{Ground, join, text};

use super::oid::Oid;
use super::pack::{self, Form};
use super::parse::Type;
use super::place::from;
use super::{Error, damaged, index, loose};

/// Objects that are looked at; the largest repositories of tasks have about a million.
const MOST: usize = 5_000_000;

/// Entries of a directory of objects or packs.
const ENTRIES: usize = 1 << 20;

/// Repositories that one may borrow from.
const ALTERNATES: usize = 16;

/// Differences on the way to one object; git makes at most 4,095.
const CHAIN: usize = 4096;

/// Bytes of unpacked objects that are kept for the differences to them.
const CACHE: usize = 64 << 20;

/// Where an object is: in which folder of objects, and there in which pack.
#[derive(Debug, Clone, Copy)]
struct Where {
    folder: u16,
    packed: Option<(u32, u64)>,
}

/// Unpacked objects by pack and offset.
type Cache = HashMap<(u32, u64), (Type, Rc<[u8]>)>;

/// The objects.
#[derive(Debug)]
pub(crate) struct Objects<'a> {
    ground: &'a Ground,
    folders: Vec<Vec<u8>>,
    packs: Vec<(String, File)>,
    places: HashMap<Oid, Where>,
    cache: Cache,
    cached: usize,
    deadline: Instant,
    /// What could not be read, and so may hold more objects.
    pub(crate) unread: Vec<String>,
}

impl<'a> Objects<'a> {
    /// Finds all objects of a repository.
    pub(crate) fn open(
        ground: &'a Ground,
        common: &[u8],
        deadline: Instant,
    ) -> Result<Self, Error> {
        let mut objects = Self {
            ground,
            folders: vec![join(common, b"objects")],
            packs: Vec::new(),
            places: HashMap::new(),
            cache: HashMap::new(),
            cached: 0,
            deadline,
            unread: Vec::new(),
        };
        let mut next = 0;
        while next < objects.folders.len() {
            objects.find_in(next)?;
            next += 1;
        }
        Ok(objects)
    }

    /// Names of all objects.
    pub(crate) fn names(&self) -> impl Iterator<Item = Oid> {
        self.places.keys().copied()
    }

    pub(crate) fn has(&self, oid: Oid) -> bool {
        self.places.contains_key(&oid)
    }

    /// The alternate that an object comes from; None for the repository's own.
    pub(crate) fn alternate(&self, oid: Oid) -> Option<String> {
        let folder = self.places.get(&oid)?.folder;
        (folder > 0).then(|| text(&self.folders[usize::from(folder)]))
    }

    fn find_in(&mut self, folder: usize) -> Result<(), Error> {
        let path = self.folders[folder].clone();
        let entries = match self.ground.list(&path, ENTRIES) {
            Ok(entries) => entries,
            // An alternate that is not in the image lends nothing.
            Err(error) if error.is_absent() && folder > 0 => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            if entry.name.len() == 2 && entry.name.iter().all(u8::is_ascii_hexdigit) {
                self.find_loose(folder, &join(&path, &entry.name), &entry.name)?;
            }
        }
        self.find_packs(folder, &join(&path, b"pack"))?;
        self.find_alternates(&path)
    }

    fn find_loose(&mut self, folder: usize, path: &[u8], start: &[u8]) -> Result<(), Error> {
        let entries = match self.ground.list(path, ENTRIES) {
            Ok(entries) => entries,
            Err(error) if error.is_absent() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            if let Some(oid) = Oid::from_hex(&[start, &entry.name].concat()) {
                self.put(folder, oid, None)?;
            }
        }
        Ok(())
    }

    fn find_packs(&mut self, folder: usize, path: &[u8]) -> Result<(), Error> {
        let entries = match self.ground.list(path, ENTRIES) {
            Ok(entries) => entries,
            Err(error) if error.is_absent() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in &entries {
            let name = join(path, &entry.name);
            if entry.name.ends_with(b".idx") {
                if let Err(error) = self.find_packed(folder, &name) {
                    self.late()?;
                    self.unread.push(error.to_string());
                }
            } else if entry.name.starts_with(b"tmp_")
                || entry.name.ends_with(b".pack")
                    && !entries
                        .iter()
                        .any(|other| is_index_of(&other.name, &entry.name))
            {
                self.unread.push(format!("{} has no index", text(&name)));
            }
        }
        Ok(())
    }

    fn find_packed(&mut self, folder: usize, name: &[u8]) -> Result<(), Error> {
        let bytes = self.ground.read(name, index::LONGEST)?;
        let packed = index::read(&text(name), &bytes)?;
        let pack = [&name[..name.len() - 3], b"pack"].concat();
        let number = u32::try_from(self.packs.len()).map_err(|_| Error::Many("packs"))?;
        self.packs.push((text(&pack), self.ground.file(&pack)?));
        for (oid, offset) in packed {
            self.put(folder, oid, Some((number, offset)))?;
        }
        Ok(())
    }

    fn find_alternates(&mut self, folder: &[u8]) -> Result<(), Error> {
        let list = match self.ground.read(&join(folder, b"info/alternates"), 1 << 20) {
            Ok(list) => list,
            Err(error) if error.is_absent() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let lines = list.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            let path = from(folder, line);
            if self.folders.contains(&path) {
                continue;
            }
            if self.folders.len() > ALTERNATES {
                return Err(Error::Many("alternates"));
            }
            self.folders.push(path);
        }
        Ok(())
    }

    fn put(&mut self, folder: usize, oid: Oid, packed: Option<(u32, u64)>) -> Result<(), Error> {
        self.late()?;
        if self.places.len() >= MOST {
            return Err(Error::Many("objects"));
        }
        let folder = u16::try_from(folder).map_err(|_| Error::Many("alternates"))?;
        self.places.entry(oid).or_insert(Where { folder, packed });
        Ok(())
    }

    /// An error once the time is over.
    pub(crate) fn late(&self) -> Result<(), Error> {
        if Instant::now() >= self.deadline {
            return Err(Error::Late);
        }
        Ok(())
    }

    /// What an object is, without its content.
    pub(crate) fn kind(&self, oid: Oid) -> Result<Type, Error> {
        self.late()?;
        let mut oid = oid;
        for _ in 0..CHAIN {
            let place = self.places.get(&oid).ok_or(Error::Missing(oid))?;
            let Some((pack, mut offset)) = place.packed else {
                return Ok(self.loose(oid, place.folder, false)?.0);
            };
            loop {
                let head = self.head(pack, offset)?;
                match head.form {
                    Form::Whole(kind) => return Ok(kind),
                    // Each base lies before its difference, so this ends.
                    Form::Offset(base) => offset = base,
                    Form::Named(base) => {
                        oid = base;
                        break;
                    }
                }
            }
        }
        Err(damaged(
            &oid.to_string(),
            "its differences go round in a circle",
        ))
    }

    /// An object with its content.
    pub(crate) fn read(&mut self, oid: Oid) -> Result<(Type, Rc<[u8]>), Error> {
        self.late()?;
        let place = *self.places.get(&oid).ok_or(Error::Missing(oid))?;
        let Some((mut pack, mut offset)) = place.packed else {
            let (kind, content) = self.loose(oid, place.folder, true)?;
            return Ok((kind, content.into()));
        };
        let mut chain = Vec::new();
        let (kind, mut content) = loop {
            if let Some((kind, content)) = self.cache.get(&(pack, offset)) {
                break (*kind, Rc::clone(content));
            }
            if chain.len() >= CHAIN {
                return Err(damaged(&oid.to_string(), "it has too many differences"));
            }
            let head = self.head(pack, offset)?;
            let bytes = self.stream(pack, &head)?;
            match head.form {
                Form::Whole(kind) => {
                    let content: Rc<[u8]> = bytes.into();
                    self.keep((pack, offset), kind, &content);
                    break (kind, content);
                }
                Form::Offset(base) => {
                    chain.push((pack, offset, bytes));
                    offset = base;
                }
                Form::Named(base) => {
                    chain.push((pack, offset, bytes));
                    let place = self.places.get(&base).ok_or(Error::Missing(base))?;
                    match place.packed {
                        Some(packed) => (pack, offset) = packed,
                        None => {
                            let (kind, content) = self.loose(base, place.folder, true)?;
                            break (kind, content.into());
                        }
                    }
                }
            }
        };
        while let Some((pack, offset, delta)) = chain.pop() {
            let (name, _) = &self.packs[pack as usize];
            let whole = pack::apply(&content, &delta)
                .ok_or_else(|| damaged(name, "a difference does not fit its base"))?;
            content = whole.into();
            self.keep((pack, offset), kind, &content);
        }
        Ok((kind, content))
    }

    fn keep(&mut self, place: (u32, u64), kind: Type, content: &Rc<[u8]>) {
        if self.cached + content.len() > CACHE {
            self.cache.clear();
            self.cached = 0;
        }
        self.cached += content.len();
        self.cache.insert(place, (kind, Rc::clone(content)));
    }

    fn head(&self, pack: u32, offset: u64) -> Result<pack::Head, Error> {
        let (name, file) = &self.packs[pack as usize];
        pack::head(file, offset).ok_or_else(|| damaged(name, "an entry has no header"))
    }

    fn stream(&self, pack: u32, head: &pack::Head) -> Result<Vec<u8>, Error> {
        let (name, file) = &self.packs[pack as usize];
        pack::stream(file, head).ok_or_else(|| damaged(name, "an entry does not unpack"))
    }

    fn loose(&self, oid: Oid, folder: u16, content: bool) -> Result<(Type, Vec<u8>), Error> {
        let hex = oid.to_string();
        let name = format!("{}/{}", &hex[..2], &hex[2..]);
        let path = join(&self.folders[usize::from(folder)], name.as_bytes());
        let file = self.ground.file(&path)?;
        loose::read(&file, content).ok_or_else(|| damaged(&text(&path), "it does not unpack"))
    }
}

fn is_index_of(index: &[u8], pack: &[u8]) -> bool {
    index.strip_suffix(b".idx") == pack.strip_suffix(b".pack")
}
