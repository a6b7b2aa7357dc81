//! How a function begins tells how large its frame is: a second way to its frame pointer, for
//! programs whose own functions keep none.
//!
//! Rust's standard library and C libraries are built with frame pointers, and a program by default
//! isn't. Their functions' unwind tables then lead over a register that only the function itself
//! has set up, and whose saved value is its caller's, of any kind: no chain of frames holds there.

/// The longest way from where a function stands back to its own beginning.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;
/// `push %rbp; mov %rsp,%rbp`, in both of its encodings (Intel's manual, volume 2, MOV).
const BEGINNINGS: [[u8; 4]; 2] = [[0x55, 0x48, 0x89, 0xe5], [0x55, 0x48, 0x8b, 0xec]];

/// How far above the stack pointer the frame pointer is, for a function whose code up to where it
/// stands is `code`; `None` where its beginning isn't among that or doesn't tell.
///
/// What counts is what follows the frame pointer's setting: registers that are saved, and one
/// subtraction. In between, compilers move arguments out of the way.
pub(super) fn frame_bytes(code: &[u8]) -> Option<u64> {
    let at = code
        .windows(4)
        .rposition(|bytes| BEGINNINGS.iter().any(|beginning| beginning == bytes))?;
    let mut rest = &code[at + 4..];
    let mut bytes = 0;
    loop {
        rest = match rest {
            // PUSH of one of the first eight registers, or with a prefix of the others.
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => {
                bytes += 8;
                rest
            }
            // MOV from register to register.
            [0x89, 0xc0..=0xff, rest @ ..] | [0x40..=0x4f, 0x89, 0xc0..=0xff, rest @ ..] => rest,
            // SUB from the stack pointer.
            [0x48, 0x83, 0xec, less, ..] => return Some(bytes + u64::from(*less)),
            [0x48, 0x81, 0xec, a, b, c, d, ..] => {
                return Some(bytes + u64::from(u32::from_le_bytes([*a, *b, *c, *d])));
            }
            // AND: how far the stack pointer was moved by it, nobody can tell any more.
            [0x48, 0x83 | 0x81, 0xe4, ..] => return None,
            _ => return Some(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `std::thread::sleep` of Rust 1.95, up to its first look at an argument.
    const SLEEP: [u8; 18] = [
        0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x41, 0x54, 0x53, 0x48, 0x83, 0xec, 0x20,
        0x48, 0x85, 0xff,
    ];

    #[test]
    fn what_was_saved_and_made_room_for_is_the_frame() {
        assert_eq!(frame_bytes(&SLEEP), Some(4 * 8 + 0x20));
        let large = [0x55, 0x48, 0x8b, 0xec, 0x48, 0x81, 0xec, 0, 2, 0, 0];
        assert_eq!(frame_bytes(&large), Some(0x200));
        let moves = [
            0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x49, 0x89, 0xff, 0x53, 0x89, 0xf3, 0x31, 0xc0,
        ];
        assert_eq!(frame_bytes(&moves), Some(16));
    }

    #[test]
    fn the_last_beginning_is_the_function_s_own() {
        let mut code = vec![0x55, 0x48, 0x89, 0xe5, 0x53, 0x5b, 0x5d, 0xc3];
        code.extend(SLEEP);
        assert_eq!(frame_bytes(&code), Some(4 * 8 + 0x20));
    }

    #[test]
    fn a_stack_that_was_aligned_and_a_beginning_that_is_not_there_tell_nothing() {
        let aligned = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xe4, 0xe0];
        assert_eq!(frame_bytes(&aligned), None);
        assert_eq!(frame_bytes(&SLEEP[4..]), None);
        assert_eq!(frame_bytes(&[]), None);
    }

    #[test]
    fn code_that_is_cut_anywhere_is_read_as_far_as_it_goes() {
        for end in 0..SLEEP.len() {
            let told = frame_bytes(&SLEEP[..end]);
            assert!(told.is_none_or(|bytes| bytes <= 4 * 8 + 0x20), "{end}");
        }
    }
}
