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

/// `2026-11-17 21:30 UTC`, of seconds since 1970.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that leap days are at their ends; eras of 400 years are alike.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * era + year + next;
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_threes() {
        let shown = [0, 999, 1000, 27_505, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "27,505", "1,234,567"]);
    }

    #[test]
    fn seconds_are_days_of_the_calendar() {
        // date -u -d @951782400: the leap day that centuries do not have, and this one had.
        let shown = [0, 951_782_400, 951_868_800, 1_798_761_599].map(utc);
        let days = ["1970-01-01 00:00", "2000-02-29 00:00", "2000-03-01 00:00", "2026-12-31 23:59"];
        assert_eq!(shown, days.map(|day| format!("{day} UTC")));
    }
}
