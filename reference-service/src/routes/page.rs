//! A page of a list that is all there.

/// Entries from a place on, at most so many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<T> {
    pub(super) entries: Vec<T>,
    /// Whether more follow.
    pub(super) has_next: bool,
    /// Entries of the whole list.
    pub(super) total: usize,
}

impl<T> Page<T> {
    /// Without a limit it goes to the list's end.
    pub(super) fn of(list: Vec<T>, offset: usize, limit: Option<usize>) -> Self {
        let total = list.len();
        let limit = limit.unwrap_or(usize::MAX);
        Self {
            entries: list.into_iter().skip(offset).take(limit).collect(),
            has_next: offset.saturating_add(limit) < total,
            total,
        }
    }
}

/// Whether a text is found in another, in whatever case.
pub(super) fn matches(text: &str, search: &str) -> bool {
    text.to_lowercase().contains(&search.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_tell_whether_more_follow() {
        let page = |offset, limit| {
            let page = Page::of(vec![1, 2, 3, 4], offset, limit);
            assert_eq!(page.total, 4);
            (page.entries, page.has_next)
        };
        assert_eq!(page(0, Some(1)), (vec![1], true));
        assert_eq!(page(2, Some(2)), (vec![3, 4], false));
        assert_eq!(page(3, Some(usize::MAX)), (vec![4], false));
        assert_eq!(page(9, Some(2)), (vec![], false));
        assert_eq!(page(usize::MAX, None), (vec![], false));
        assert_eq!(page(1, None), (vec![2, 3, 4], false));
    }

    #[test]
    fn case_is_no_difference() {
        assert!(matches("Feature/É", "feature/é"));
        assert!(matches("any", ""));
        assert!(!matches("fix", "feature"));
    }
}
