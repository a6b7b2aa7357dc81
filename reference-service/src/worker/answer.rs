//! What the agent says: an echo, the same for the same question, and how long it thinks before.

use std::time::Duration;

/// How a question begins that is to be thought about.
const THINK: &str = "Think for ";
/// Longer than that nobody waits for an answer.
const THINK_S_MAX: u64 = 3_600;

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

/// How long a question wants to be thought about before the first word, as an agent does that runs
/// a long tool: `Think for 60 s, …`. Others are answered at once.
#[must_use]
pub fn thinking(question: &str) -> Duration {
    let rest = question.strip_prefix(THINK);
    let seconds = rest.and_then(|rest| rest.split_once(" s"));
    let seconds: Option<u64> = seconds.and_then(|(number, _)| number.parse().ok()); // else: words
    Duration::from_secs(seconds.map_or(0, |seconds| seconds.min(THINK_S_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_how_long_it_is_thought_about() {
        for (question, seconds) in [
            ("Think for 600 s, then answer", 600),
            ("Think for 1 s", 1),
            ("Think for 99999 s", THINK_S_MAX),
            ("Think for a while, some time", 0),
            ("What do you think for 5 s?", 0),
            ("", 0),
        ] {
            assert_eq!(thinking(question).as_secs(), seconds, "{question}");
        }
    }

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
