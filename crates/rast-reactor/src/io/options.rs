//! How files are opened.

#[cfg(target_os = "linux")]
use std::io;

/// How a file is opened; by default for reading.
///
/// See [`File`](crate::io::File) for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "it opens nothing by itself"]
pub struct OpenOptions {
    write: bool,
    write_only: bool,
    append: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
}

impl OpenOptions {
    /// For reading.
    pub fn new() -> Self {
        Self::default()
    }

    /// For writing too.
    pub fn write(mut self) -> Self {
        self.write = true;
        self
    }

    /// For writing alone.
    pub fn write_only(mut self) -> Self {
        (self.write, self.write_only) = (true, true);
        self
    }

    /// Every write goes to the end, whatever offset it is given.
    pub fn append(mut self) -> Self {
        (self.write, self.append) = (true, true);
        self
    }

    /// Makes the file if there is none; for writing too.
    pub fn create(mut self) -> Self {
        (self.write, self.create) = (true, true);
        self
    }

    /// Makes the file; an error if there is one. For writing too.
    pub fn create_new(mut self) -> Self {
        (self.write, self.create_new) = (true, true);
        self
    }

    /// Removes what the file has; for writing too.
    pub fn truncate(mut self) -> Self {
        (self.write, self.truncate) = (true, true);
        self
    }

    /// The same for a file of std.
    pub(super) fn std(self) -> std::fs::OpenOptions {
        let mut options = std::fs::OpenOptions::new();
        options
            .read(!self.write_only)
            .write(self.write && !self.append)
            .append(self.append)
            .create(self.create)
            .create_new(self.create_new)
            .truncate(self.truncate);
        options
    }

    /// The same as flags of the system. Refuses what std refuses.
    #[cfg(target_os = "linux")]
    pub(crate) fn flags(self) -> io::Result<i32> {
        if self.append && self.truncate && !self.create_new {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = match (self.write, self.write_only) {
            (false, _) => libc::O_RDONLY,
            (true, false) => libc::O_RDWR,
            (true, true) => libc::O_WRONLY,
        };
        let flags = [
            (self.append, libc::O_APPEND),
            (self.create, libc::O_CREAT),
            (self.create_new, libc::O_CREAT | libc::O_EXCL),
            (self.truncate && !self.create_new, libc::O_TRUNC),
        ];
        let chosen = flags.into_iter().filter(|&(is_set, _)| is_set);
        Ok(chosen.fold(access, |sum, (_, flag)| sum | flag))
    }
}
