//! Making foreign text safe for each syntax that a report is written in.
//!
//! Two stages: [`visible`] turns characters that hide, reorder or control
//! other text into a readable code such as `⟨U+202E⟩`; then one function per
//! syntax quotes what that syntax would interpret.

use std::fmt::Write as _;

/// Names longer than this are cut in every format: a page must stay readable.
const NAME_CHARS_MAX: usize = 240;

/// Replaces control, direction-changing and invisible characters by their code
/// point in brackets, line breaks and tabs by a space, and cuts very long text.
pub(crate) fn visible(text: &str) -> String {
    visible_up_to(text, NAME_CHARS_MAX)
}

/// Like [`visible`] for sentences, which may be longer than names.
pub(crate) fn visible_prose(text: &str) -> String {
    visible_up_to(text, 4 * NAME_CHARS_MAX)
}

fn visible_up_to(text: &str, chars_max: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, character) in text.chars().enumerate() {
        if index == chars_max {
            // Cutting says so: a silent cut would make two names look the same.
            let left = text.chars().count() - chars_max;
            write!(out, "… (+{left} characters)").expect("writing to a String cannot fail");
            break;
        }
        match character {
            '\n' | '\r' | '\t' => out.push(' '),
            hidden if is_hidden(hidden) => {
                write!(out, "⟨U+{:04X}⟩", hidden as u32).expect("writing to a String cannot fail")
            }
            plain => out.push(plain),
        }
    }
    out
}

/// Characters that a reader cannot see or that change how others are shown.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{00AD}' // soft hyphen
                | '\u{034F}' // joiner of marks
                | '\u{115F}'..='\u{1160}' // fillers, which look like nothing
                | '\u{2800}'
                | '\u{3164}'
                | '\u{FFA0}'
                | '\u{FE00}'..='\u{FE0F}' // variants
                | '\u{E0100}'..='\u{E01EF}'
                | '\u{061C}'
                | '\u{180E}'
                | '\u{200B}'..='\u{200F}' // zero width, direction marks
                | '\u{2028}'..='\u{202E}' // separators, embeddings, overrides
                | '\u{2060}'..='\u{206F}' // joiners, isolates
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{FFFE}'..='\u{FFFF}' // not characters, forbidden in XML
                | '\u{E0000}'..='\u{E007F}' // tags
        )
}

/// For HTML text, HTML attributes in quotes, SVG and XML alike.
pub(crate) fn markup(text: &str) -> String {
    quote_markup(&visible(text))
}

/// The same for sentences.
pub(crate) fn markup_prose(text: &str) -> String {
    quote_markup(&visible_prose(text))
}

fn quote_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            plain => out.push(plain),
        }
    }
    out
}

/// A name in Markdown, as code: a code span, or `<code>` with numeric entities
/// where a span could be broken out of (backticks) or would split a table (pipes).
pub(crate) fn markdown_code(name: &str) -> String {
    let name = visible(name);
    if name.trim().is_empty() {
        return "(no name)".to_owned();
    }
    let breaks_span = |character: char| matches!(character, '`' | '|' | '\\');
    if !name.contains(breaks_span) && name.trim() == name {
        return format!("`{name}`");
    }
    let mut out = String::from("<code>");
    for character in name.chars() {
        if character.is_ascii_punctuation() {
            write!(out, "&#{};", character as u32).expect("writing to a String cannot fail");
        } else {
            out.push(character);
        }
    }
    out.push_str("</code>");
    out
}

/// Between two characters that would mean something together: a code host links and notifies in the
/// text that it has rendered, so a backslash doesn't keep it from that. It is added after `visible`,
/// so it is the only one that can be there.
const WORD_JOINER: char = '\u{2060}';

/// A sentence in Markdown, also inside a table cell or at the beginning of a line: nothing in it is
/// markup, notifies anybody or links to anything.
pub(crate) fn markdown(text: &str) -> String {
    let text = visible_prose(text);
    // Blanks in front would make a block of code.
    let text = text.trim();
    let mut out = String::with_capacity(text.len() + 8);
    let numbered = numbered_item(text);
    for (index, character) in text.char_indices() {
        let rest = &text[index + character.len_utf8()..];
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => {
                out.push('\\');
                out.push(character);
            }
            // An issue, a merge request, a snippet; a label, a milestone and an epic have names, too.
            '#' | '!' | '$' | '~' | '%' | '&' => {
                match character {
                    '&' => out.push_str("&amp;"),
                    '%' => out.push('%'),
                    _ => out.extend(['\\', character]),
                }
                if rest.starts_with(|next: char| next.is_alphanumeric() || next == '"') {
                    out.push(WORD_JOINER);
                }
            }
            // An issue again: GH-12.
            '-' if is_issue(&text[..index], rest) => out.extend(['-', WORD_JOINER]),
            _ if begins_commit(&text[..index], &text[index..]) => {
                out.extend([character, WORD_JOINER]);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A person or a team.
            '@' => out.extend(['@', WORD_JOINER]),
            // A link without brackets.
            ':' if rest.starts_with("//") => out.extend([':', WORD_JOINER]),
            '.' if ends_in_www(&text[..index]) => out.extend([WORD_JOINER, '.']),
            // A list, a line under a heading, an order to the host's bot.
            '-' | '+' | '=' | '/' if index == 0 => out.extend(['\\', character]),
            '.' | ')' if numbered == Some(index) => out.extend(['\\', character]),
            plain => out.push(plain),
        }
    }
    out
}

/// Where the point or bracket is that makes a text an item of a numbered list.
fn numbered_item(text: &str) -> Option<usize> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let rest = text[digits..].strip_prefix(['.', ')'])?;
    let is_item = digits > 0 && (rest.is_empty() || rest.starts_with(' '));
    is_item.then_some(digits)
}

fn is_issue(before: &str, after: &str) -> bool {
    let start = before.len().saturating_sub(2);
    let is_host = before
        .get(start..)
        .is_some_and(|last| last.eq_ignore_ascii_case("gh"));
    is_host && after.starts_with(|next: char| next.is_ascii_digit())
}

/// Whether a commit's hash may begin here: a code host links those that it knows, from seven digits on.
fn begins_commit(before: &str, text: &str) -> bool {
    const DIGITS_MIN: usize = 7;
    let is_inside = before.ends_with(|last: char| last.is_ascii_alphanumeric());
    let end = text.find(|letter: char| !letter.is_ascii_hexdigit());
    let hash = &text[..end.unwrap_or(text.len())];
    // Numbers and words are none.
    let has = |wanted: fn(&u8) -> bool| hash.as_bytes().iter().any(wanted);
    !is_inside
        && hash.len() >= DIGITS_MIN
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
}

fn ends_in_www(text: &str) -> bool {
    let start = text.len().saturating_sub(3);
    text.get(start..)
        .is_some_and(|last| last.eq_ignore_ascii_case("www"))
}

/// A line of the message of a GitHub workflow command.
pub(crate) fn annotation_message(text: &str) -> String {
    // No line break is left by now: what joins lines is written by who has them.
    plain_spaces(&visible_prose(text)).replace('%', "%25")
}

/// Between two lines of such a message.
pub(crate) const ANNOTATION_LINE_BREAK: &str = "%0A";

/// A property of a GitHub workflow command, such as its title.
pub(crate) fn annotation_property(text: &str) -> String {
    annotation_message(text)
        .replace(':', "%3A")
        .replace(',', "%2C")
}

/// A field of CSV (RFC 4180), with nothing in it that a spreadsheet would run as a formula: what begins
/// like one gets an apostrophe in front, also after a semicolon, where some countries' spreadsheets begin
/// the next field, quotes or not. Unlike elsewhere it is never cut, so that rows can be joined by it.
pub(crate) fn csv(text: &str) -> String {
    let text = visible_up_to(text, usize::MAX);
    let begins_formula =
        |letter: char| matches!(letter, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
    // A quote may begin the field that a semicolon does.
    let skipped = |letter: char| letter.is_whitespace() || letter == '"';
    let parts: Vec<String> = text
        .split(';')
        .map(|part| match part.trim_start_matches(skipped) {
            formula if formula.starts_with(begins_formula) => format!("'{part}"),
            _ => part.to_owned(),
        })
        .collect();
    let text = parts.join(";");
    if text.contains(['"', ',', ';']) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Narrow and no-break spaces become plain ones, for output that is searched
/// and copied from a terminal or a log.
pub(crate) fn plain_spaces(text: &str) -> String {
    text.replace(['\u{202F}', '\u{00A0}', '\u{2009}'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_between_semicolons_is_a_formula() {
        assert_eq!(
            csv("GET /a;=HYPERLINK(\"x\",\"y\")"),
            "\"GET /a;'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""
        );
        assert_eq!(csv("a; \"=1"), "\"a;' \"\"=1\"");
        assert_eq!(csv("a;b"), "\"a;b\"");
        assert_eq!(csv("=1;2"), "\"'=1;2\"");
        assert_eq!(csv("a-b"), "a-b");
    }

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(
            visible("a\u{202E}b\u{1b}[31m\0"),
            "a⟨U+202E⟩b⟨U+001B⟩[31m⟨U+0000⟩"
        );
        assert_eq!(
            visible("\u{3164}\u{2800}\u{FE0F}"),
            "⟨U+3164⟩⟨U+2800⟩⟨U+FE0F⟩"
        );
        assert_eq!(visible("two\nlines\tand a tab"), "two lines and a tab");
        assert_eq!(
            visible("zero\u{200B}width\u{FEFF}"),
            "zero⟨U+200B⟩width⟨U+FEFF⟩"
        );
        // Not hidden: an emoji, a letter with a mark, a right-to-left letter.
        assert_eq!(visible("é ✓ א 漢"), "é ✓ א 漢");
    }

    #[test]
    fn long_names_are_cut_and_say_so() {
        let cut = visible(&"x".repeat(1_000));
        assert!(cut.ends_with("… (+760 characters)"), "{cut}");
    }

    #[test]
    fn markup_is_quoted() {
        assert_eq!(
            markup("<script>alert(\"1\")</script>&'"),
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;"
        );
    }

    #[test]
    fn markdown_names_stay_code() {
        assert_eq!(markdown_code("GET /a_b*c"), "`GET /a_b*c`");
        assert_eq!(markdown_code("a|b`c"), "<code>a&#124;b&#96;c</code>");
        assert_eq!(markdown_code("\n"), "(no name)");
        assert_eq!(
            markdown("<b> a|b [x](y) @team"),
            "&lt;b&gt; a\\|b \\[x\\](y) @\u{2060}team"
        );
    }

    #[test]
    fn markdown_links_to_nothing_and_begins_nothing() {
        for (text, inert) in [
            ("see https://x.y", "see https:\u{2060}//x.y"),
            ("see WWW.x.y", "see WWW\u{2060}.x.y"),
            ("#12 and !3", "\\#\u{2060}12 and \\!\u{2060}3"),
            ("1. one", "1\\. one"),
            ("12) one", "12\\) one"),
            ("3.5 ms", "3.5 ms"),
            ("in 3. ms", "in 3. ms"),
            ("- one", "\\- one"),
            ("/close", "\\/close"),
            ("GET /x", "GET /x"),
            ("$x$", "\\$\u{2060}x\\$"),
            ("5 % & ~", "5 % &amp; \\~"),
            (
                "%1 &2 ~\"x\" ~bug",
                "%\u{2060}1 &amp;\u{2060}2 \\~\u{2060}\"x\" \\~\u{2060}bug",
            ),
            ("GH-12 gh-x", "GH-\u{2060}12 gh-x"),
            ("at 0123abcd", "at 0\u{2060}123abcd"),
            ("12345678 defaced xa1b2c3d4", "12345678 defaced xa1b2c3d4"),
        ] {
            assert_eq!(markdown(text), inert);
        }
    }

    #[test]
    fn fields_of_csv_are_text_and_no_formulas() {
        for (text, field) in [
            ("GET /a", "GET /a"),
            ("=1+1", "'=1+1"),
            ("-2", "'-2"),
            (" @SUM(A1)", "' @SUM(A1)"),
            ("＝cmd", "'＝cmd"),
            ("a\"b,c", "\"a\"\"b,c\""),
            ("+\tx,\"", "\"'+ x,\"\"\""),
            ("a=b", "a=b"),
        ] {
            assert_eq!(csv(text), field);
        }
        assert_eq!(csv(&"x".repeat(1_000)).len(), 1_000);
    }

    #[test]
    fn annotations_cannot_be_left() {
        assert_eq!(annotation_property("a,b:c\n%"), "a%2Cb%3Ac %25");
        assert!(!annotation_message("x\n::error::y").contains('\n'));
    }
}
