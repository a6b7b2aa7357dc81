//! Searching a project's code by words: what is looked for, and how good a match is.

use std::cmp::Reverse;

use serde_json::{Value, json};

/// Results that are answered.
pub const RESULTS_MAX: usize = 10;
/// Different words of a query that are looked for; the rest of a longer one is left out, so that
/// no query asks the database for more.
const WORDS_MAX: usize = 32;
/// What a word weighs in each place.
const NAME_WEIGHT: u32 = 3;
const PATH_WEIGHT: u32 = 2;
const CONTENT_WEIGHT: u32 = 1;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// In which project.
    pub project_id: String,
    /// All words, in lower case, with one space between two.
    phrase: String,
    /// The words, each once.
    words: Vec<String>,
}

impl Search {
    /// `None` if the query has no words.
    #[must_use]
    pub fn new(project_id: String, query: &str) -> Option<Self> {
        let all: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut words: Vec<String> = Vec::new();
        for word in &all {
            if words.len() < WORDS_MAX && !words.contains(word) {
                words.push(word.clone());
            }
        }
        (!words.is_empty()).then(|| Self {
            project_id,
            phrase: all.join(" "),
            words,
        })
    }

    /// For ILIKE: each word anywhere, its letters taken as they are.
    #[must_use]
    pub fn patterns(&self) -> Vec<String> {
        let literal = |word: &String| {
            word.replace('\\', r"\\")
                .replace('%', r"\%")
                .replace('_', r"\_")
        };
        let words = self.words.iter().map(literal);
        words.map(|word| format!("%{word}%")).collect()
    }

    /// The best of what the database found, best first; of equal ones those that were indexed first.
    #[must_use]
    pub fn best(&self, found: Vec<Indexed>) -> Vec<Hit> {
        let mut hits: Vec<(u32, Hit)> = found.into_iter().map(|node| self.rate(node)).collect();
        hits.sort_by_key(|(score, _)| Reverse(*score));
        hits.truncate(RESULTS_MAX);
        hits.into_iter().map(|(_, hit)| hit).collect()
    }

    fn rate(&self, node: Indexed) -> (u32, Hit) {
        let places = [
            (node.name.to_lowercase(), NAME_WEIGHT),
            (node.file_path.to_lowercase(), PATH_WEIGHT),
            (node.content.to_lowercase(), CONTENT_WEIGHT),
        ];
        let weight = |word: &String| -> u32 {
            let with_it = places.iter().filter(|(text, _)| text.contains(word));
            with_it.map(|(_, weight)| weight).sum()
        };
        // Fits: there are no more words than WORDS_MAX.
        let best = self.words.len() as u32 * (NAME_WEIGHT + PATH_WEIGHT + CONTENT_WEIGHT);
        let is_exact = places[0].0 == self.phrase;
        let score: u32 = if is_exact {
            best
        } else {
            self.words.iter().map(weight).sum()
        };
        let hit = Hit {
            node,
            match_type: if is_exact { "exact" } else { "partial" },
            relevance: f64::from(score * 100 / best) / 100.0,
        };
        (score, hit)
    }
}

/// A node of a project's code, as it is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexed {
    /// Its id.
    pub node_id: String,
    /// Of a function, a class or a file.
    pub name: String,
    /// Where it is.
    pub file_path: String,
    /// Its text.
    pub content: String,
}

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    node: Indexed,
    /// `exact` if the query is the name, whatever the case; else `partial`.
    match_type: &'static str,
    /// From 0 to 1: how many of the words are in how good a place; 1 if it is exact.
    relevance: f64,
}

impl Hit {
    /// As it is answered.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "node_id": self.node.node_id,
            "name": self.node.name,
            "file_path": self.node.file_path,
            "content": self.node.content,
            "match_type": self.match_type,
            "relevance": self.relevance,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, file_path: &str, content: &str) -> Indexed {
        Indexed {
            node_id: format!("n-{name}"),
            name: name.to_owned(),
            file_path: file_path.to_owned(),
            content: content.to_owned(),
        }
    }

    fn search(query: &str) -> Search {
        Search::new("p-1".to_owned(), query).expect("it has words")
    }

    #[test]
    fn words_are_looked_for_once_and_as_they_are() {
        assert_eq!(
            search(r" Open  100%_a\b open ").patterns(),
            ["%open%", r"%100\%\_a\\b%"]
        );
        assert_eq!(Search::new("p-1".to_owned(), " \t\n"), None);
        let long: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        assert_eq!(search(&long.join(" ")).patterns().len(), WORDS_MAX);
    }

    #[test]
    fn a_name_counts_more_than_a_path_and_a_path_more_than_a_text() {
        let found = vec![
            node("other", "a.rs", "it can OPEN"),
            node("opened", "b.rs", ""),
            node("other", "open.rs", ""),
            node("Open", "c.rs", ""),
        ];
        let hits = search("open").best(found);
        let told: Vec<(&str, &str, f64)> = hits
            .iter()
            .map(|hit| (hit.node.file_path.as_str(), hit.match_type, hit.relevance))
            .collect();
        assert_eq!(
            told,
            [
                ("c.rs", "exact", 1.0),
                ("b.rs", "partial", 0.5),
                ("open.rs", "partial", 0.33),
                ("a.rs", "partial", 0.16),
            ]
        );
    }

    #[test]
    fn only_so_many_are_told_and_equals_stay_in_order() {
        let found = (0..30).map(|n| node(&format!("open-{n}"), "a.rs", ""));
        let hits = search("open").best(found.collect());
        let names: Vec<&str> = hits.iter().map(|hit| hit.node.name.as_str()).collect();
        assert_eq!(names.len(), RESULTS_MAX);
        assert_eq!((names[0], names[9]), ("open-0", "open-9"));
    }

    #[test]
    fn each_word_adds_to_the_relevance() {
        let found = vec![node("open", "a.rs", ""), node("open_file", "a.rs", "")];
        let hits = search("open file").best(found);
        assert_eq!(hits[0].to_json()["name"], "open_file");
        assert_eq!(hits[0].relevance, 0.5);
        assert_eq!(hits[1].relevance, 0.25);
    }
}
