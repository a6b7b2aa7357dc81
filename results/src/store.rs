//! Records on disk: written so that a crash leaves the old file or the new one,
//! read so that a damaged one is explained.
//!
//! Two processes may write the same file: the last to finish wins, whole. A
//! process killed in the middle leaves a hidden `.name.*.tmp` beside the target,
//! which may be deleted.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::record::{RunRecord, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME};
use crate::text_position;

/// Far above any honest record; a file beyond it is not read into memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Why a record could not be written or read. Messages name the file, the place
/// in it, what was expected and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be written; what was there before is still there.
    #[error(
        "{path}: could not {action}: {source}. The previous file, if any, is unchanged; \
         free space or choose another folder with --out"
    )]
    Write {
        /// The record's path.
        path: PathBuf,
        /// What failed.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The target exists and is a device, folder or pipe.
    #[error("{path}: is not a regular file, so a record can't replace it; choose another path")]
    NotAFile {
        /// The record's path.
        path: PathBuf,
    },
    /// The record could not be turned into JSON.
    #[error("{path}: the record could not be serialised: {source}")]
    Serialise {
        /// The record's path.
        path: PathBuf,
        /// What the serialiser said.
        source: serde_json::Error,
    },
    /// The file could not be read at all.
    #[error("{path}: could not read the record: {source}")]
    Read {
        /// The record's path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not a record that this version understands.
    #[error("{}:{line}:{column}: {message}{}\n  fix: {fix}", path.display(), at(json_path))]
    Malformed {
        /// The record's path.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// Where in the document, for example `blocks[3].arm`; empty for the whole.
        json_path: String,
        /// What was found and what was expected.
        message: String,
        /// What to do.
        fix: String,
    },
}

impl StoreError {
    /// Whether it is a record of another major format, and may be whole all the same.
    pub(crate) fn is_of_another_format(&self) -> bool {
        matches!(self, Self::Malformed { json_path, .. } if json_path == MAJOR)
    }
}

fn at(json_path: &str) -> String {
    if json_path.is_empty() {
        String::new()
    } else {
        format!(" (at {json_path})")
    }
}

/// Writes a record, replacing the file at `path` in one step: a temporary file
/// beside it, synchronised, renamed, and the folder synchronised.
///
/// # Errors
/// [`StoreError::Write`], [`StoreError::NotAFile`] or [`StoreError::Serialise`];
/// in each case the file at `path` is what it was.
pub fn write(path: &Path, record: &RunRecord) -> Result<(), StoreError> {
    if fs::metadata(path).is_ok_and(|target| !target.is_file()) {
        return Err(StoreError::NotAFile {
            path: path.to_owned(),
        });
    }
    // A link stays a link: what it points to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |action| {
        let path = path.to_owned();
        move |source| StoreError::Write {
            path,
            action,
            source,
        }
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = new_file(folder, &name).map_err(failed("create a file in its folder"))?;
    let mut writer = BufWriter::new(temporary);
    write_json(&mut writer, record).map_err(|source| match source.io_error_kind() {
        Some(_) => failed("write the record")(source.into()),
        None => StoreError::Serialise {
            path: path.to_owned(),
            source,
        },
    })?;
    let temporary = writer
        .into_inner()
        .map_err(|error| failed("write the record")(error.into_error()))?;
    temporary
        .as_file()
        .sync_all()
        .map_err(failed("bring the record to disk"))?;
    temporary
        .persist(&target)
        .map_err(|error| failed("put the record in place")(error.error))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed("bring the folder to disk"))
}

fn new_file(folder: &Path, name: &str) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{name}.");
    builder.prefix(&prefix).suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Temporary files are private by default; a record is as readable as the umask says.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

fn write_json(writer: &mut impl Write, record: &RunRecord) -> Result<(), serde_json::Error> {
    serde_json::to_writer_pretty(&mut *writer, record)?;
    writer
        .write_all(b"\n")
        .and_then(|()| writer.flush())
        .map_err(serde_json::Error::io)
}

/// Reads and checks a record.
///
/// A record of the same major version is read whatever its minor version;
/// fields that only a newer minor knows are ignored (the comparison warns of
/// that), unknown fields of this minor or an older one are errors.
///
/// # Errors
/// [`StoreError::Read`] or [`StoreError::Malformed`].
pub fn read(path: &Path) -> Result<RunRecord, StoreError> {
    let cannot_read = |source| StoreError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(cannot_read)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(cannot_read(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "larger than 1 GiB, which no record is",
        )));
    }
    parse(&bytes, path)
}

/// The same for a document in memory; `origin` names it in errors.
///
/// # Errors
/// [`StoreError::Malformed`].
pub fn parse(bytes: &[u8], origin: &Path) -> Result<RunRecord, StoreError> {
    let document = Document {
        bytes,
        path: origin,
    };
    let minor = document.check_schema()?;
    let record = document.parse_fields(minor > SCHEMA_MINOR)?;
    record.validate().map_err(|violation| {
        document.malformed(
            violation.json_path,
            violation.message,
            "the file was edited or damaged: measure again, or restore it from where it came",
        )
    })?;
    Ok(record)
}

/// Where a record names its major format.
const MAJOR: &str = "schema.major";

/// The part of a record that every version has.
#[derive(Deserialize)]
#[serde(expecting = "a record: an object with a \"schema\"")]
struct AnySchema {
    schema: Option<AnyVersion>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with name, major and minor")]
struct AnyVersion {
    name: String,
    major: u32,
    minor: u32,
}

struct Document<'a> {
    bytes: &'a [u8],
    path: &'a Path,
}

impl Document<'_> {
    fn malformed(&self, json_path: String, message: String, fix: &str) -> StoreError {
        let (line, column) = text_position::locate(self.bytes, &json_path);
        StoreError::Malformed {
            path: self.path.to_owned(),
            line,
            column,
            json_path,
            message,
            fix: fix.to_owned(),
        }
    }

    /// Name and version come first: of another format, nothing else can be said.
    fn check_schema(&self) -> Result<u32, StoreError> {
        if self.bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(self.malformed(
                String::new(),
                "the file is empty, expected a record".to_owned(),
                "measure again with `unstall run` or `unstall ab`",
            ));
        }
        let any: AnySchema = self.deserialize(|json| serde_path_to_error::deserialize(json))?;
        let Some(schema) = any.schema else {
            return Err(self.malformed(
                String::new(),
                format!("no \"schema\", expected a record ({SCHEMA_NAME} {SCHEMA_MAJOR})"),
                "give a file that `unstall run` or `unstall ab` wrote",
            ));
        };
        if schema.name != SCHEMA_NAME {
            return Err(self.malformed(
                "schema.name".to_owned(),
                format!("found a {:?}, expected {SCHEMA_NAME:?}", schema.name),
                "give a file that `unstall run` or `unstall ab` wrote",
            ));
        }
        if schema.major != SCHEMA_MAJOR {
            let fix = if schema.major > SCHEMA_MAJOR {
                "update unstall, or measure again with this version"
            } else {
                "measure again: no released version wrote this format"
            };
            return Err(self.malformed(
                MAJOR.to_owned(),
                format!(
                    "format {}.{} of a record, expected {SCHEMA_MAJOR}.x",
                    schema.major, schema.minor
                ),
                fix,
            ));
        }
        Ok(schema.minor)
    }

    fn parse_fields(&self, tolerant: bool) -> Result<RunRecord, StoreError> {
        let mut unknown = None;
        let record = self.deserialize(|json| {
            let mut track = serde_path_to_error::Track::new();
            let tracked = serde_path_to_error::Deserializer::new(json, &mut track);
            let result = serde_ignored::deserialize(tracked, |path| {
                unknown.get_or_insert_with(|| text_position::ignored_path(&path));
            });
            result.map_err(|error| serde_path_to_error::Error::new(track.path(), error))
        })?;
        match unknown {
            Some(json_path) if !tolerant => Err(self.malformed(
                json_path,
                "unknown field".to_owned(),
                "remove it, or check its spelling; the fields of a record are fixed per format version",
            )),
            _ => Ok(record),
        }
    }

    fn deserialize<T>(
        &self,
        parse: impl FnOnce(
            &mut serde_json::Deserializer<serde_json::de::SliceRead<'_>>,
        ) -> Result<T, serde_path_to_error::Error<serde_json::Error>>,
    ) -> Result<T, StoreError> {
        let mut json = serde_json::Deserializer::from_slice(self.bytes);
        let value = parse(&mut json).map_err(|error| {
            let json_path = match error.path().to_string() {
                root if root == "." => String::new(),
                // A question mark stands where the parser does not know.
                path => path.trim_end_matches(['?', '.']).to_owned(),
            };
            self.syntax(error.inner(), json_path)
        })?;
        json.end()
            .map_err(|error| self.syntax(&error, String::new()))?;
        Ok(value)
    }

    fn syntax(&self, error: &serde_json::Error, json_path: String) -> StoreError {
        use serde_json::error::Category;
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = text
            .strip_suffix(&place)
            .unwrap_or(&text)
            .replace("expected u64", "expected a whole number from 0")
            .replace(
                "expected u32",
                "expected a whole number from 0 to 4 294 967 295",
            )
            .replace("expected ident", "expected a JSON document");
        let fix = match error.classify() {
            Category::Eof => "the file is cut short: copy it again, or measure again",
            Category::Syntax => "it is not JSON from here on: restore the file, or measure again",
            Category::Data | Category::Io => {
                "the file was edited or damaged: restore it, or measure again"
            }
        };
        StoreError::Malformed {
            path: self.path.to_owned(),
            line: error.line().max(1),
            column: error.column().max(1),
            json_path,
            message,
            fix: fix.to_owned(),
        }
    }
}
