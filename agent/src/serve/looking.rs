//! Is the last look at the directory still true? Pure.

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// Nothing has happened since.
    Fresh,
    /// A new look is due.
    Due,
    /// It is being looked at.
    Now,
    /// It is being looked at, and something has happened meanwhile.
    NowAndAgain,
}

impl Looking {
    /// Something has happened.
    #[must_use]
    pub fn after_news(self) -> Self {
        match self {
            Self::Fresh | Self::Due => Self::Due,
            Self::Now | Self::NowAndAgain => Self::NowAndAgain,
        }
    }

    /// A look has come to its end.
    #[must_use]
    pub fn after_look(self) -> Self {
        match self {
            Self::NowAndAgain => Self::Due,
            Self::Fresh | Self::Due | Self::Now => Self::Fresh,
        }
    }
}
