//! Functions of sources as two versions spell them: a line moves with every change above it, a file is
//! another one in another checkout, and a function may be moved to another file. None of that is new.

use std::collections::BTreeMap;

use crate::numbers;

/// `function at file:line`, cut.
pub(super) fn place(line: &str) -> Option<(&str, &str, u32)> {
    let (rest, number) = line.rsplit_once(':')?;
    let (function, file) = rest.rsplit_once(" at ")?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!file.is_empty()).then_some((function, file, number))
}

/// A function, and what of it is looked at: a class of waiting, or whom it kept waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'r> {
    pub(super) kind: &'r str,
    pub(super) function: &'r str,
    pub(super) file: &'r str,
}

/// What was seen of a function, over all of its lines.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    /// 0 to 1.
    pub(super) share: f64,
    /// The line that has most of it.
    pub(super) line: u32,
    share_of_line: f64,
    lines: usize,
}

impl Sum {
    /// `get at app/stores.py:41`.
    pub(super) fn spelled(&self, key: Key<'_>) -> String {
        let Key { function, file, .. } = key;
        match self.lines {
            1 => format!("{function} at {file}:{}", self.line),
            _ => format!("{function} at {file} (most at line {})", self.line),
        }
    }
}

/// Lines of one version's functions, as they are found.
#[derive(Debug, Default)]
pub(super) struct Lines<'r>(BTreeMap<(Key<'r>, u32), f64>);

impl<'r> Lines<'r> {
    /// Adds a share of a line; what isn't a place is left out.
    pub(super) fn add(&mut self, kind: &'r str, line: &'r str, share: f64) {
        if let Some((function, file, line)) = place(line) {
            let key = Key {
                kind,
                function,
                file,
            };
            *self.0.entry((key, line)).or_default() += share;
        }
    }

    /// The lines of each function together.
    pub(super) fn by_function(self) -> Places<'r> {
        let mut sums: BTreeMap<Key<'r>, Sum> = BTreeMap::new();
        for ((key, line), share) in self.0 {
            let sum = sums.entry(key).or_default();
            // Loops that are held at once by several routes may come to more than the time.
            sum.share = (sum.share + share).min(1.0);
            sum.lines += 1;
            if share > sum.share_of_line || sum.lines == 1 {
                (sum.line, sum.share_of_line) = (line, share);
            }
        }
        Places(sums)
    }
}

/// What one version's functions did.
#[derive(Debug)]
pub(super) struct Places<'r>(BTreeMap<Key<'r>, Sum>);

/// What the old version had of a function of the new one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Earlier<'r> {
    /// The same function of the same file.
    Same(f64),
    /// The same function, in a file of another name that doesn't have it any more.
    Moved(&'r str, f64),
    /// Nothing of it.
    Unseen,
}

impl Earlier<'_> {
    pub(super) fn share(self) -> f64 {
        match self {
            Self::Same(share) | Self::Moved(_, share) => share,
            Self::Unseen => 0.0,
        }
    }

    pub(super) fn spelled(self) -> String {
        match self {
            Self::Same(share) => format!("{} before", numbers::share(share)),
            Self::Moved(file, share) => {
                format!("{} before, when it was in {file}", numbers::share(share))
            }
            Self::Unseen => "not seen before".to_owned(),
        }
    }
}

impl<'r> Places<'r> {
    /// Every function.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key<'r>, Sum)> + '_ {
        self.0.iter().map(|(key, sum)| (*key, *sum))
    }

    /// The files that have a function of this name, and its share in each.
    fn files(&self, key: Key<'_>) -> Vec<(&'r str, f64)> {
        let same = self
            .0
            .iter()
            .skip_while(|(other, _)| (other.kind, other.function) < (key.kind, key.function));
        let same =
            same.take_while(|(other, _)| (other.kind, other.function) == (key.kind, key.function));
        same.map(|(key, sum)| (key.file, sum.share)).collect()
    }

    /// What `before` had of one of these functions.
    pub(super) fn earlier<'b>(&self, key: Key<'_>, before: &Places<'b>) -> Earlier<'b> {
        let (now, old) = (self.files(key), before.files(key));
        let most_now = |file: &str| {
            let all = now.iter().map(|(now, _)| in_common(now, file));
            all.max().unwrap_or(0)
        };
        // Of functions of one name, each old one is that of the new one which has most of its path.
        let own: Vec<(usize, f64)> = old
            .iter()
            .map(|(file, share)| (in_common(key.file, file), most_now(file), *share))
            .filter(|(common, most, _)| *common > 0 && common == most)
            .map(|(common, _, share)| (common, share))
            .collect();
        if let Some(most) = own.iter().map(|(common, _)| *common).max() {
            let closest = own.iter().filter(|(common, _)| *common == most);
            let share: f64 = closest.map(|(_, share)| share).sum();
            return Earlier::Same(share.min(1.0));
        }
        let mut gone = old.iter().filter(|(file, _)| most_now(file) == 0);
        let is_new = |now: &str| old.iter().all(|(old, _)| in_common(now, old) == 0);
        let new = now.iter().filter(|(file, _)| is_new(file)).count();
        match (gone.next(), gone.next()) {
            // Of several it can't be told which one went where.
            (Some((file, share)), None) if new == 1 && is_new(key.file) => {
                Earlier::Moved(file, *share)
            }
            _ => Earlier::Unseen,
        }
    }
}

/// How many parts two paths have in common at their end: 0 where even the files' names differ.
fn in_common(one: &str, other: &str) -> usize {
    let parts = |path: &'_ str| {
        path.rsplit(['/', '\\'])
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (one, other) = (parts(one), parts(other));
    one.iter()
        .zip(&other)
        .take_while(|(one, other)| one == other)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<'r>(lines: &[(&'r str, f64)]) -> Places<'r> {
        let mut places = Lines::default();
        for (line, share) in lines {
            places.add("io", line, *share);
        }
        places.by_function()
    }

    /// What was before, for each function of `after` in the order of files.
    fn earlier<'r>(before: &[(&'r str, f64)], after: &[(&'r str, f64)]) -> Vec<Earlier<'r>> {
        let (before, after) = (places(before), places(after));
        after
            .iter()
            .map(|(key, _)| after.earlier(key, &before))
            .collect()
    }

    #[test]
    fn a_line_without_a_number_is_no_place() {
        assert_eq!(
            place("<lambda> at a b.py:7"),
            Some(("<lambda>", "a b.py", 7))
        );
        assert_eq!(place("f at C:\\x.py:3"), Some(("f", "C:\\x.py", 3)));
        for none in [
            "f at x.py",
            "f at x.py:0",
            "f at :3",
            "x.py:3",
            "",
            "f at x.py:three",
        ] {
            assert_eq!(place(none), None, "{none}");
        }
    }

    #[test]
    fn a_line_that_moved_within_its_function_is_not_new() {
        let found = earlier(
            &[("get at app/stores.py:41", 0.4)],
            &[("get at app/stores.py:44", 0.4)],
        );
        assert_eq!(found, [Earlier::Same(0.4)]);
        let lines = [
            ("get at a.py:4", 0.1),
            ("get at a.py:7", 0.2),
            ("set at a.py:9", 0.5),
        ];
        let after = places(&lines);
        let (key, sum) = after.iter().next().expect("get");
        assert_eq!(sum.spelled(key), "get at a.py (most at line 7)");
        assert!((sum.share - 0.3).abs() < 1e-9);
        assert_eq!(
            earlier(&lines, &[("set at a.py:12", 0.6)]),
            [Earlier::Same(0.5)]
        );
    }

    #[test]
    fn another_checkout_has_the_same_files() {
        let before = [
            ("get at /b/main/app/users.py:41", 0.4),
            ("get at /b/main/admin/users.py:3", 0.1),
        ];
        let after = [
            ("get at /b/new/admin/users.py:9", 0.1),
            ("get at /b/new/app/users.py:41", 0.5),
        ];
        assert_eq!(
            earlier(&before, &after),
            [Earlier::Same(0.1), Earlier::Same(0.4)]
        );
        // One more of a name that is there already is new.
        let one = [("get at /b/main/app/users.py:41", 0.4)];
        assert_eq!(earlier(&one, &after), [Earlier::Unseen, Earlier::Same(0.4)]);
    }

    #[test]
    fn a_function_is_moved_where_its_old_file_has_it_no_more() {
        let old = ("get at app/old.py:41", 0.4);
        let moved = ("get at app/new.py:3", 0.4);
        assert_eq!(
            earlier(&[old], &[moved]),
            [Earlier::Moved("app/old.py", 0.4)]
        );
        assert_eq!(
            earlier(&[old], &[moved, old]),
            [Earlier::Unseen, Earlier::Same(0.4)]
        );
        // Which of two it is can't be told.
        let other = ("get at app/other.py:3", 0.4);
        assert_eq!(earlier(&[old], &[moved, other]), [Earlier::Unseen; 2]);
        assert_eq!(earlier(&[], &[moved]), [Earlier::Unseen]);
        assert_eq!(
            earlier(&[("set at app/old.py:41", 0.4)], &[moved]),
            [Earlier::Unseen]
        );
    }
}
