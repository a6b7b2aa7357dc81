//! How large answers were and how often requests were sent elsewhere: an arm that answers with
//! more bytes, compresses them or redirects does other work. Shown, not judged.

use crate::pool::{Pool, pools};
use crate::record::{EndpointSamples, RunRecord};
use crate::validate::saturating_sum;

/// The answers of one endpoint in one arm, over its valid blocks at all levels: how large an
/// answer is says nothing of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Its name in the scenario.
    pub endpoint: String,
    /// Checked, successful answers.
    pub completed: u64,
    /// Bytes of their bodies, decoded.
    pub body_bytes: u64,
    /// The same as they came over the wire: fewer where they were compressed. `None` in records
    /// before 1.3, which didn't count them.
    pub encoded_bytes: Option<u64>,
    /// Redirects that were followed, by requests whatever became of them.
    pub redirects: u64,
}

impl Answers {
    /// Bytes of one body, decoded; `None` without an answer.
    pub fn body_bytes_each(&self) -> Option<f64> {
        self.each(self.body_bytes)
    }

    /// Bytes of one body on the wire; `None` without an answer, or where nobody counted them.
    pub fn encoded_bytes_each(&self) -> Option<f64> {
        self.each(self.encoded_bytes?)
    }

    /// Whether bodies came in fewer bytes than they have, or in more.
    pub fn is_encoded(&self) -> bool {
        self.encoded_bytes
            .is_some_and(|encoded| encoded != self.body_bytes)
    }

    fn each(&self, bytes: u64) -> Option<f64> {
        (self.completed > 0).then(|| bytes as f64 / self.completed as f64)
    }

    fn add(&mut self, pool: &Pool<'_>) {
        let sum = |of: fn(&EndpointSamples) -> u64| {
            saturating_sum(pool.samples.iter().map(|samples| of(samples)))
        };
        let encoded = sum(|samples| samples.encoded_bytes);
        self.completed = self
            .completed
            .saturating_add(sum(|samples| samples.completed));
        self.body_bytes = self
            .body_bytes
            .saturating_add(sum(|samples| samples.body_bytes));
        self.redirects = self
            .redirects
            .saturating_add(sum(|samples| samples.redirects));
        if encoded > 0 {
            self.encoded_bytes = Some(self.encoded_bytes.unwrap_or(0).saturating_add(encoded));
        }
    }
}

/// Endpoints whose answers had a body, or that redirected: in the scenario's order, then by arm.
/// Invalid blocks are left out.
pub fn answers(record: &RunRecord) -> Vec<Answers> {
    let mut found: Vec<Answers> = Vec::new();
    for pool in pools(record) {
        let is_its = |one: &Answers| one.endpoint == pool.endpoint.name && one.arm == pool.arm;
        let index = found.iter().position(is_its).unwrap_or_else(|| {
            found.push(Answers {
                arm: pool.arm.to_owned(),
                endpoint: pool.endpoint.name.clone(),
                completed: 0,
                body_bytes: 0,
                encoded_bytes: None,
                redirects: 0,
            });
            found.len() - 1
        });
        found[index].add(&pool);
    }
    found.retain(|one| one.body_bytes > 0 || one.redirects > 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EndpointSpec, run_record};

    #[test]
    fn only_what_had_a_body_or_redirected_is_told_of() {
        let endpoints = ["GET plain", "GET bare", "GET moved", "GET packed"]
            .map(|name| EndpointSpec::new(name, 5.0));
        let mut record = run_record(1, 100, &endpoints);
        let mut set = |name: &str, body: u64, encoded: u64, redirects: u64| {
            let samples = record.blocks[0].endpoints.get_mut(name);
            let samples = samples.expect("it is in the scenario");
            samples.body_bytes = body * samples.completed;
            samples.encoded_bytes = encoded * samples.completed;
            samples.redirects = redirects;
        };
        set("GET plain", 15, 0, 0);
        set("GET bare", 0, 0, 0);
        set("GET moved", 0, 0, 7);
        set("GET packed", 1_000, 250, 0);
        let found = answers(&record);
        let names: Vec<&str> = found.iter().map(|one| one.endpoint.as_str()).collect();
        assert_eq!(names, ["GET plain", "GET moved", "GET packed"]);
        let [plain, moved, packed] = found.as_slice() else {
            panic!("three: {found:?}");
        };
        assert_eq!(plain.body_bytes_each(), Some(15.0));
        assert_eq!(plain.encoded_bytes_each(), None, "an old record");
        assert!(!plain.is_encoded() && packed.is_encoded());
        assert_eq!(packed.encoded_bytes_each(), Some(250.0));
        assert_eq!(moved.redirects, 7);
        record.blocks[0].validity.ok = false;
        assert_eq!(answers(&record), []);
    }

    #[test]
    fn all_levels_are_one() {
        let mut record = run_record(1, 100, &[EndpointSpec::new("GET a", 5.0)]);
        let mut second = record.blocks[0].clone();
        second.level += 1;
        record.blocks.push(second);
        let found = answers(&record);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].completed, 2 * record.blocks[0].completed);
        assert_eq!(found[0].body_bytes_each(), Some(256.0));
    }
}
