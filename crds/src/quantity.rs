//! The value of a Kubernetes quantity (`resource.Quantity`), exactly.
//!
//! `k8s-openapi` keeps a quantity as the text it was written as, so `1Gi` and `1024Mi` differ for it.

use std::cmp::Ordering;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Units of [`Amount`] in one.
const NANO: i128 = 1_000_000_000;

/// A text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a quantity: write a number with one of the units n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
)]
pub struct QuantityError {
    text: String,
}

/// The value of a quantity in billionths. Values that are too large stay at the largest one, and smaller fractions are
/// rounded up, as Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

impl Amount {
    /// The value in whole units (bytes, cores), rounded up; the largest `i64` when it does not fit.
    #[must_use]
    pub fn ceil(self) -> i64 {
        let whole = self.0.div_euclid(NANO) + i128::from(self.0.rem_euclid(NANO) != 0);
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// Zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// The value of `quantity`.
pub fn parse(quantity: &Quantity) -> Result<Amount, QuantityError> {
    parse_text(&quantity.0).ok_or_else(|| QuantityError {
        text: quantity.0.clone(),
    })
}

/// Which of two quantities is larger, whatever their units.
pub fn compare(a: &Quantity, b: &Quantity) -> Result<Ordering, QuantityError> {
    Ok(parse(a)?.cmp(&parse(b)?))
}

fn parse_text(text: &str) -> Option<Amount> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let mantissa = digits.bytes().fold(0_i128, |sum, digit| {
        sum.saturating_mul(10).saturating_add((digit - b'0').into())
    });
    let decimals = i32::try_from(fraction.len()).ok()?;
    let value = match suffix_of(suffix)? {
        Suffix::Binary(power) => scale(mantissa.saturating_mul(1_i128 << (10 * power)), 9 - decimals),
        Suffix::Decimal(exponent) => scale(mantissa, exponent.saturating_add(9).saturating_sub(decimals)),
    };
    Some(Amount(if negative { -value } else { value }))
}

enum Suffix {
    /// Power of 1024.
    Binary(u32),
    /// Power of 10.
    Decimal(i32),
}

fn suffix_of(suffix: &str) -> Option<Suffix> {
    Some(match suffix {
        "Ki" => Suffix::Binary(1),
        "Mi" => Suffix::Binary(2),
        "Gi" => Suffix::Binary(3),
        "Ti" => Suffix::Binary(4),
        "Pi" => Suffix::Binary(5),
        "Ei" => Suffix::Binary(6),
        "n" => Suffix::Decimal(-9),
        "u" => Suffix::Decimal(-6),
        "m" => Suffix::Decimal(-3),
        "" => Suffix::Decimal(0),
        "k" => Suffix::Decimal(3),
        "M" => Suffix::Decimal(6),
        "G" => Suffix::Decimal(9),
        "T" => Suffix::Decimal(12),
        "P" => Suffix::Decimal(15),
        "E" => Suffix::Decimal(18),
        exponent => Suffix::Decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// `value * 10^exponent`, rounded up, within what an `i128` holds.
fn scale(value: i128, exponent: i32) -> i128 {
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    match (power, exponent >= 0) {
        (Some(power), true) => value.saturating_mul(power),
        (None, true) => {
            if value == 0 {
                0
            } else {
                i128::MAX
            }
        }
        (Some(power), false) => value / power + i128::from(value % power != 0),
        (None, false) => i128::from(value != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(text: &str) -> Quantity {
        Quantity(text.into())
    }

    #[test]
    fn quantities_are_compared_by_value_and_not_by_text() {
        for (a, b) in [
            ("1Gi", "1024Mi"),
            ("1500m", "1.5"),
            ("1e3", "1k"),
            ("0", "0Gi"),
            (".5Gi", "512Mi"),
            ("1E", "1e18"),
        ] {
            assert_eq!(compare(&q(a), &q(b)), Ok(Ordering::Equal), "{a} {b}");
        }
        for (smaller, larger) in [
            ("512Mi", "1Gi"),
            ("1G", "1Gi"),
            ("-1", "0"),
            ("999m", "1"),
            ("8Ei", "9Ei"),
        ] {
            assert_eq!(
                compare(&q(smaller), &q(larger)),
                Ok(Ordering::Less),
                "{smaller} {larger}"
            );
        }
    }

    #[test]
    fn whole_units_are_rounded_up() {
        let ceil = |text| parse(&q(text)).unwrap().ceil();
        assert_eq!(
            [ceil("1Gi"), ceil("1500m"), ceil("0.1n"), ceil("-1500m"), ceil("99Ei")],
            [1 << 30, 2, 1, -1, i64::MAX]
        );
    }

    #[test]
    fn what_is_not_a_quantity_is_refused_by_its_text() {
        for text in ["", "Gi", "1gi", "1 Gi", "1.2.3", "--1", "1e", "1Kib", "."] {
            assert_eq!(parse(&q(text)), Err(QuantityError { text: text.into() }), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn plain_bytes_are_read_as_they_are(bytes in 0..=i64::MAX) {
            proptest::prop_assert_eq!(parse(&q(&bytes.to_string())).unwrap().ceil(), bytes);
        }

        #[test]
        fn no_text_makes_parsing_panic(text in "[+-]?[0-9.]{0,45}([a-zA-Z]{0,2}|[eE][+-]?[0-9]{0,12})") {
            let _ = parse(&q(&text));
        }
    }
}
