//! `--sizes`: lists of message sizes, and ranges with steps.

use super::BYTES_MAX;
use crate::quantity;
use core::str::FromStr;

/// Limit on the sizes of one measurement. At 0.3 s each, these take 50 minutes.
const SIZES_MAX: usize = 10_000;
/// Smallest factor of a range: a smaller one reaches [`SIZES_MAX`] sizes within four decades.
const FACTOR_MIN: f64 = 1.001;

/// Message sizes in the order of the list, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(Vec<u64>);

/// Step of a range.
enum Step {
    Times(f64),
    Plus(u64),
}

impl Sizes {
    /// Returns the sizes in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// Returns the largest size.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.iter().max().unwrap_or(0)
    }

    fn push(&mut self, bytes: u64) -> Result<(), String> {
        if bytes > BYTES_MAX {
            return Err(format!("{bytes} bytes exceed the maximum message size of 1 GiB"));
        }
        if self.0.contains(&bytes) {
            return Ok(());
        }
        if self.0.len() == SIZES_MAX {
            return Err(format!("the list has more than {SIZES_MAX} sizes; use larger steps"));
        }
        self.0.push(bytes);
        Ok(())
    }

    fn push_range(&mut self, from: &str, rest: &str) -> Result<(), String> {
        let from = quantity::bytes(from)?;
        let at = rest.find(['*', '+']);
        let (to, step) = at.map_or((rest, ""), |at| rest.split_at(at));
        let to = quantity::bytes(to)?;
        let step = Step::parse(step)?;
        if from > to {
            return Err(format!("the range begins at {from} and ends before that, at {to}"));
        }
        if from == 0 && matches!(step, Step::Times(_)) {
            return Err("a range from 0 does not grow by a factor; write 0,8..1M, or 0..1K+64".into());
        }
        let mut index = 0;
        loop {
            let bytes = step.at(from, index);
            if bytes > to {
                return Ok(());
            }
            self.push(bytes)?;
            index += 1;
        }
    }
}

impl Step {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_at_checked(1) {
            None => Ok(Self::Times(2.0)),
            Some(("+", bytes)) => match quantity::bytes(bytes)? {
                0 => Err("the step must not be 0 bytes".into()),
                bytes => Ok(Self::Plus(bytes)),
            },
            Some((_, factor)) => match factor.parse::<f64>() {
                Ok(factor) if (FACTOR_MIN..=1e9).contains(&factor) => Ok(Self::Times(factor)),
                _ => Err(format!(
                    "'{factor}' is not a factor; write a number of at least {FACTOR_MIN}, as in *1.05"
                )),
            },
        }
    }

    /// Returns the size at this index of a range. Above 1 GiB it may be inexact.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "from 0 to 1 GiB every whole number is exact, and what is larger is cut off"
    )]
    fn at(&self, from: u64, index: u32) -> u64 {
        match self {
            Self::Plus(bytes) => from.saturating_add(bytes.saturating_mul(index.into())),
            Self::Times(factor) => (from as f64 * factor.powf(index.into())).round() as u64,
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sizes = Self(Vec::new());
        for item in text.split(',') {
            match item.split_once("..") {
                None => sizes.push(quantity::bytes(item)?)?,
                Some((from, rest)) => sizes.push_range(from, rest)?,
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<u64> {
        text.parse::<Sizes>().unwrap().0
    }

    #[test]
    fn lists_keep_their_order_without_duplicates() {
        assert_eq!(read("8"), [8]);
        assert_eq!(read("1M,8,4K,8,0"), [1 << 20, 8, 4096, 0]);
        assert_eq!(read("64..256,128,100"), [64, 128, 256, 100]);
        assert_eq!("8,1G,4K".parse::<Sizes>().unwrap().max(), 1 << 30);
    }

    #[test]
    fn ranges_double_multiply_or_add() {
        assert_eq!(read("64..1K"), [64, 128, 256, 512, 1024]);
        assert_eq!(read("64..1000"), [64, 128, 256, 512]);
        assert_eq!(read("4K..16K+4K"), [4096, 8192, 12288, 16384]);
        assert_eq!(read("0..10+4"), [0, 4, 8]);
        assert_eq!(read("100..150*1.1"), [100, 110, 121, 133, 146]);
        assert_eq!(read("7..7"), [7]);
        assert_eq!(read("1.5K..4K+1.5K"), [1536, 3072]);
        // a step that rounds to zero repeats a size, which is kept once
        assert_eq!(read("1..4*1.2"), [1, 2, 3, 4]);
        assert_eq!(read("512M..1G").len(), 2);
    }

    #[test]
    fn fine_steps_over_a_wide_range() {
        let sizes = read("4K..64M*1.05");
        assert_eq!((sizes.len(), sizes[0]), (199, 4096));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1] && pair[1] as f64 <= pair[0] as f64 * 1.051));
        assert!(*sizes.last().unwrap() > (64 << 20) * 100 / 105);
    }

    #[test]
    fn wrong_lists_are_refused() {
        for (text, words) in [
            ("", "whole number"),
            ("8,,9", "whole number"),
            ("1G..2G", "1 GiB"),
            ("1073741825", "1 GiB"),
            ("9..8", "ends before"),
            ("0..8", "factor"),
            ("1..8*1", "not a factor"),
            ("1..8*0.5", "not a factor"),
            ("1..8*nan", "not a factor"),
            ("1..8*", "not a factor"),
            ("1..8+0", "must not be 0"),
            ("1..8-1", "unit"),
            ("1..1G+1", "more than 10000"),
            ("1..2..3", "whole number"),
            ("1...5K", "whole number"),
            ("1.5", "whole number"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
