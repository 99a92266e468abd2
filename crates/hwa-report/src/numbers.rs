//! Numbers as people read them.

/// `12,345`
pub(crate) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_threes() {
        let shown = [0, 999, 1000, 27_505, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "27,505", "1,234,567"]);
    }
}
