//! How values are written to disk and to peers: one byte of format version, then MessagePack
//! with field names, so that a field with a default may be added both ways.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// The version that this program writes, and the newest that it reads.
pub const VERSION: u8 = 1;

/// Bytes that are not what they should be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Written by a later version of this program.
    #[error("format version {found} is newer than {VERSION}, the newest that this program reads")]
    Newer {
        /// Its version byte.
        found: u8,
    },
    /// Well-formed, but not a value of the wanted type: of a field or variant that is not known.
    #[error("not known to this program, which may be older than what wrote it: {0}")]
    Unknown(String),
    /// Not a value of the wanted type.
    #[error("malformed: {0}")]
    Malformed(String),
    /// The value cannot be written.
    #[error("cannot be encoded: {0}")]
    Unwritable(String),
}

impl From<FormatError> for io::Error {
    fn from(error: FormatError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// The bytes of `value`.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FormatError> {
    let mut bytes = vec![VERSION];
    let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    value.serialize(&mut serializer).map_err(|e| FormatError::Unwritable(e.to_string()))?;
    Ok(bytes)
}

/// How long the bytes of `value` would be.
pub fn length<T: Serialize>(value: &T) -> Result<usize, FormatError> {
    let mut count = Count(1);
    let mut serializer = rmp_serde::Serializer::new(&mut count).with_struct_map();
    value.serialize(&mut serializer).map_err(|e| FormatError::Unwritable(e.to_string()))?;
    Ok(count.0)
}

/// Counts what is written to it.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses bytes of a format that this program does not read, whatever follows.
pub fn check_version(bytes: &[u8]) -> Result<&[u8], FormatError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        None | Some((0, _)) => Err(FormatError::Malformed("no format version".to_owned())),
        Some((&found, _)) => Err(FormatError::Newer { found }),
    }
}

/// The value of `bytes`, all of them.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    let mut rest = check_version(bytes)?;
    let value = rmp_serde::from_read(&mut rest).map_err(|e| match e {
        rmp_serde::decode::Error::Syntax(detail) => FormatError::Unknown(detail),
        other => FormatError::Malformed(other.to_string()),
    })?;
    if rest.is_empty() { Ok(value) } else { Err(FormatError::Malformed("bytes left over".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_formed_and_not_known_is_told_from_what_is_damaged() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        enum Newer {
            Known { a: u8 },
            New { b: u8 },
        }
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        enum Older {
            Known { a: u8 },
        }
        let bytes = encode(&Newer::Known { a: 1 }).expect("encodes");
        assert_eq!(decode(&bytes), Ok(Older::Known { a: 1 }));
        let bytes = encode(&Newer::New { b: 1 }).expect("encodes");
        assert!(matches!(decode::<Older>(&bytes), Err(FormatError::Unknown(why)) if why.contains("New")));
        assert!(matches!(decode::<Newer>(&bytes[..bytes.len() - 1]), Err(FormatError::Malformed(_))));
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let bytes = encode(&("a", 7u64)).expect("encodes");
        assert_eq!(decode::<(String, u64)>(&bytes), Ok(("a".to_owned(), 7)));
        assert_eq!(length(&("a", 7u64)), Ok(bytes.len()));
        let newer = [&[2], &bytes[1..]].concat();
        assert_eq!(decode::<(String, u64)>(&newer), Err(FormatError::Newer { found: 2 }));
        let longer = [&bytes[..], &[0]].concat();
        for bad in [&[][..], &[0], &[VERSION], &bytes[..bytes.len() - 1], &longer] {
            assert!(matches!(decode::<(String, u64)>(bad), Err(FormatError::Malformed(_))), "{bad:?}");
        }
    }
}
