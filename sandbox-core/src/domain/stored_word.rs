//! The words by which stores keep enums: written once, next to the enum, for all stores.

/// Gives an enum of unit variants `ALL`, `as_str`, `from_stored` and `Display`.
macro_rules! stored_words {
    ($name:ident, $kind:literal, { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $name {
            /// Every value, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that stores keep. It is part of the schema and never changes.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            /// Reads a stored word back.
            ///
            /// # Errors
            /// When no value has that word: the row is damaged, or a newer version wrote it.
            pub fn from_stored(word: &str) -> Result<Self, $crate::domain::Invalid> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::domain::Invalid::new(
                        $kind,
                        word,
                        "this version knows no such word; use the version that wrote it",
                    )),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use stored_words;
