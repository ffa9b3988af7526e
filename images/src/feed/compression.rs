//! How a stream is compressed, told by its first bytes and not by a name or media type.

use std::io::{self, BufReader, Read};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    /// Recognised in order to say so.
    Xz,
    /// Recognised in order to say so.
    Bzip2,
}

impl Compression {
    pub(crate) fn of(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A frame, or a skippable frame before the first one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            _ => Compression::None,
        }
    }

    /// Reads the bytes behind the compression.
    pub(crate) fn decoder<'a>(
        self,
        source: impl Read + Send + 'a,
    ) -> io::Result<Box<dyn Read + Send + 'a>> {
        let source = BufReader::with_capacity(128 * 1024, source);
        let unsupported = |name| {
            let what =
                format!("it is compressed with {name}; unpack it or compress it with gzip or zstd");
            Err(io::Error::new(io::ErrorKind::Unsupported, what))
        };
        match self {
            Compression::None => Ok(Box::new(source)),
            Compression::Gzip => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(source))),
            Compression::Zstd => Ok(Box::new(zstd::Decoder::with_buffer(source)?)),
            Compression::Xz => unsupported("xz"),
            Compression::Bzip2 => unsupported("bzip2"),
        }
    }

    /// Says in words what a decoder reports in codes.
    pub(crate) fn explain(self, error: io::Error) -> io::Error {
        use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
        let name = match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::None | Compression::Xz | Compression::Bzip2 => return error,
        };
        match error.kind() {
            UnexpectedEof => io::Error::new(InvalidData, format!("its {name} data ends early")),
            InvalidData | InvalidInput | Other
                if error.get_ref().is_some_and(|e| !e.is::<io::Error>()) =>
            {
                io::Error::new(InvalidData, format!("its {name} data is damaged ({error})"))
            }
            _ => error,
        }
    }
}

/// Looks at the first bytes; gives them back, as they are read from the source then.
pub(crate) fn sniff(source: &mut impl Read) -> io::Result<(Compression, Vec<u8>)> {
    let mut start = Vec::new();
    source.take(8).read_to_end(&mut start)?;
    Ok((Compression::of(&start), start))
}
