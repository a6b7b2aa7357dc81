//! What the agent says: an echo, the same for the same question.

/// What a padded answer goes on with.
const PADDING: [&str; 4] = ["and ", "so ", "on ", "still "];

/// The pieces of the answer to a question: its words, cut or padded to `chunks` if that is
/// given.
#[must_use]
pub fn pieces(question: &str, chunks: Option<usize>) -> Vec<String> {
    let answer = format!("You asked: {question}");
    let mut pieces: Vec<String> = answer.split_inclusive(' ').map(str::to_owned).collect();
    if let Some(chunks) = chunks {
        pieces.truncate(chunks);
        let words = pieces.len();
        if words < chunks
            && let Some(last) = pieces.last_mut()
            && !last.ends_with(' ')
        {
            last.push(' ');
        }
        pieces.extend((words..chunks).map(|n| PADDING[(n - words) % PADDING.len()].to_owned()));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_echo_word_by_word() {
        assert_eq!(
            pieces("two words", None),
            ["You ", "asked: ", "two ", "words"]
        );
    }

    #[test]
    fn a_stated_number_of_pieces_is_kept() {
        assert_eq!(pieces("two words", Some(3)), ["You ", "asked: ", "two "]);
        assert_eq!(
            pieces("x", Some(5)),
            ["You ", "asked: ", "x ", "and ", "so "]
        );
        assert_eq!(pieces("", Some(100)).len(), 100);
    }
}
