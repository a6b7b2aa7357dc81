//! How long texts are shortened for a model: their head and their tail, and a line that says so.

/// Characters of an answer's text. What a model is told of one call must leave room for others.
pub(super) const CHARS_MAX: usize = 80_000;

/// Characters that the line in the middle may take.
const NOTE_CHARS_MAX: usize = 60;

/// A text of `chars_max` characters at most, and whether something was left out.
pub(super) fn head_and_tail(text: String, chars_max: usize) -> (String, bool) {
    // No text has more characters than bytes.
    if text.len() <= chars_max {
        return (text, false);
    }
    let chars = text.chars().count();
    if chars <= chars_max {
        return (text, false);
    }
    let kept = chars_max.saturating_sub(NOTE_CHARS_MAX);
    let head_end = byte_of(&text, kept - kept / 2);
    let tail_start = byte_of(&text, chars - kept / 2);
    let cut = format!(
        "{}\n[… {} characters left out …]\n{}",
        &text[..head_end],
        chars - kept,
        &text[tail_start..],
    );
    (cut, true)
}

/// Where the character of that number, from 0 on, begins.
fn byte_of(text: &str, char_number: usize) -> usize {
    text.char_indices()
        .nth(char_number)
        .map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_what_is_left_out_is_counted() {
        let text = format!("{}{}{}", "a".repeat(100), "ä".repeat(1000), "z".repeat(100));
        let (cut, is_cut) = head_and_tail(text, 260);
        assert!(is_cut && cut.starts_with(&"a".repeat(100)) && cut.ends_with(&"z".repeat(100)));
        assert!(cut.contains("\n[… 1000 characters left out …]\n"), "{cut}");
        assert_eq!(
            head_and_tail("äöü".to_owned(), 3),
            ("äöü".to_owned(), false)
        );
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_it_may_be(text in "\\PC{0,300}", chars_max in 60_usize..200) {
            let (cut, is_cut) = head_and_tail(text.clone(), chars_max);
            prop_assert!(cut.chars().count() <= chars_max);
            prop_assert_eq!(is_cut, text.chars().count() > chars_max);
        }
    }
}
