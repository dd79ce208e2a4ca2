//! Reads of a file by several threads.

use std::fs::File;
use std::io::{self, Read};

/// Reads a file from a position of its own. The position of the file, which all threads share, is left out.
///
/// ```
/// use std::io::Read;
/// use tnode::FileReader;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("weights");
/// std::fs::write(&path, [1, 2, 3, 4])?;
/// let file = std::fs::File::open(&path)?;
/// let (mut first, mut last) = ([0; 2], Vec::new());
/// FileReader::new(&file, 0).read_exact(&mut first)?;
/// FileReader::new(&file, 3).read_to_end(&mut last)?;
/// assert_eq!((first, last), ([1, 2], vec![4]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileReader<'f> {
    file: &'f File,
    offset: u64,
}

impl<'f> FileReader<'f> {
    /// A reader of the bytes from `offset` on.
    pub fn new(file: &'f File, offset: u64) -> FileReader<'f> {
        FileReader { file, offset }
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let count = std::os::unix::fs::FileExt::read_at(self.file, bytes, self.offset)?;
        #[cfg(windows)]
        let count = std::os::windows::fs::FileExt::seek_read(self.file, bytes, self.offset)?;
        #[cfg(not(any(unix, windows)))]
        let count = {
            let mut file = self.file;
            io::Seek::seek(&mut file, io::SeekFrom::Start(self.offset))?;
            file.read(bytes)?
        };
        self.offset += count as u64;
        Ok(count)
    }
}
