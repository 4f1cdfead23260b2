//! What an archive or a delta says of the file it holds: plain data, which a reader of its original carries
//! along.

/// What an archive says about the file it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// The original's format, as `Reader.format` names it.
    pub format: String,
    /// The original's length in bytes.
    pub length: u64,
    /// The original's sha256, in hexadecimal.
    pub sha256: String,
    /// The files of an original in several, the one that is opened first; empty for an original in one.
    pub files: Vec<FileInfo>,
    /// Bytes of the archive.
    pub stored: u64,
    /// What a delta was made against: one model, or several; empty for an archive that needs none.
    pub bases: Vec<BaseInfo>,
}

/// What an archive says about one of several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The file's name, relative to the folder of the model.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// Its sha256, in hexadecimal.
    pub sha256: String,
}

/// What a delta says about a base of its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseInfo {
    /// The file's name when the delta was made; empty if it had none.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// Its sha256, in hexadecimal.
    pub sha256: String,
    /// The files of a base in several; empty for a base in one.
    pub files: Vec<FileInfo>,
}
