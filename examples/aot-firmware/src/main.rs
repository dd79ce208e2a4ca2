//! Classifies images of digits without an operating system, an allocator or the standard library, and writes
//! the scores of each image to the console of QEMU.
#![no_std]
#![no_main]

mod start; // the state in which the processor runs `main`

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use arrayjit_rt::{Aligned, Arena};

mod digits {
    include!(env!("MODEL_MODULE"));
}

/// The pixels of images, one after the other, 0 to 16.
static IMAGES: &[u8] = include_bytes!(env!("IMAGES"));

const PIXELS: usize = 64;
const CLASSES: usize = 10;

static mut ARENA: Arena<{ digits::Digits::ARENA_BYTES }> = Arena::new();

/// Writes, for each image, the digit and the bits of its scores.
fn run(console: &mut Console) -> Result<(), Error> {
    let network = digits::Digits::new()?;
    // SAFETY: this function is called once, and nothing else names the arena.
    let arena = unsafe { &mut *(&raw mut ARENA) };
    let mut pixels = Aligned([0u8; PIXELS]);
    let mut scores = Aligned([0f32; CLASSES]);
    for image in IMAGES.as_chunks::<PIXELS>().0 {
        *pixels = *image;
        network.classify(&pixels, &mut scores, arena)?;
        let greatest = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        write!(console, "{}:", greatest.unwrap_or(0))?;
        scores.iter().try_for_each(|score| write!(console, " {:08x}", score.to_bits()))?;
        console.write_str("\n")?;
    }
    Ok(())
}

/// Why the program ended early.
enum Error {
    Processor(arrayjit_rt::UnsupportedProcessor),
    Call(arrayjit_rt::CallError),
    Console,
}

impl From<arrayjit_rt::UnsupportedProcessor> for Error {
    fn from(error: arrayjit_rt::UnsupportedProcessor) -> Error {
        Error::Processor(error)
    }
}

impl From<arrayjit_rt::CallError> for Error {
    fn from(error: arrayjit_rt::CallError) -> Error {
        Error::Call(error)
    }
}

impl From<fmt::Error> for Error {
    fn from(_: fmt::Error) -> Error {
        Error::Console
    }
}

/// The function that the start calls.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let console = &mut Console;
    let written = match run(console) {
        Ok(()) => start::exit(0),
        Err(Error::Processor(error)) => writeln!(console, "{error}"),
        Err(Error::Call(error)) => writeln!(console, "{error}"),
        Err(Error::Console) => Ok(()),
    };
    start::exit(if written.is_ok() { 1 } else { 2 })
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    let written = writeln!(Console, "{info}");
    start::exit(if written.is_ok() { 3 } else { 4 })
}

/// The first serial port of the machine.
struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const PORT: *mut u8 = 0x0900_0000 as *mut u8;
        // SAFETY: the register is there, and each byte that is written is a character.
        text.bytes().for_each(|byte| unsafe { PORT.write_volatile(byte) });
        Ok(())
    }
}
