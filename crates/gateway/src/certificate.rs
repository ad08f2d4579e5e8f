//! When a certificate expires: the one field of X.509 that we read ourselves.

use interlock_model::Timestamp;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of the validity of a certificate in DER; none if that cannot be found.
pub(crate) fn expires_at(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut fields, _) = element(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        fields = split(fields)?.2;
    }
    // The serial number, the algorithm, and the issuer.
    for _ in 0..3 {
        fields = split(fields)?.2;
    }
    let (validity, _) = element(fields, SEQUENCE)?;
    let (tag, time, _) = split(split(validity)?.2)?;
    let time = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let time = match tag {
        // Two digits of the year: from 1950 to 2049.
        UTC_TIME if time.get(..2)? < "50" => format!("20{time}"),
        UTC_TIME => format!("19{time}"),
        GENERALIZED_TIME => time.to_owned(),
        _ => return None,
    };
    let digits = |from: usize, until: usize| time.get(from..until);
    let (date, hours) = (digits(0, 4)?, digits(8, 10)?);
    format!("{date}-{}-{}T{hours}:{}:{}Z", digits(4, 6)?, digits(6, 8)?, digits(10, 12)?, digits(12, 14)?)
        .parse()
        .ok()
}

/// The content of the first element, which must have this tag, and what follows it.
fn element(bytes: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = split(bytes)?;
    (tag == expected).then_some((content, rest))
}

/// The tag and the content of the first element, and what follows it.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // A length of up to four bytes follows.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let head = if length < 0x80 { vec![tag, length] } else { vec![tag, 0x81, length] };
        [head, content.to_vec()].concat()
    }

    fn certificate(not_after: &[u8]) -> Vec<u8> {
        let validity = der(SEQUENCE, &[der(UTC_TIME, b"200101000000Z"), not_after.to_vec()].concat());
        let version = der(VERSION, &der(2, &[2]));
        let issuer = der(SEQUENCE, &[0; 100]);
        let fields = [version, der(2, &[1]), der(SEQUENCE, &[]), issuer, validity].concat();
        der(SEQUENCE, &der(SEQUENCE, &fields))
    }

    #[test]
    fn the_end_of_a_certificate_is_found() {
        let end = |tag, time: &[u8]| expires_at(&certificate(&der(tag, time))).map(|end| end.to_string());
        assert_eq!(end(UTC_TIME, b"261118120000Z").as_deref(), Some("2026-11-18T12:00:00.000Z"));
        assert_eq!(end(UTC_TIME, b"991231235959Z").as_deref(), Some("1999-12-31T23:59:59.000Z"));
        assert_eq!(end(GENERALIZED_TIME, b"20501118120000Z").as_deref(), Some("2050-11-18T12:00:00.000Z"));
        assert_eq!(end(GENERALIZED_TIME, b"2050"), None);
    }

    #[test]
    fn other_bytes_have_no_end_and_do_no_harm() {
        let whole = certificate(&der(UTC_TIME, b"261118120000Z"));
        for length in 0..whole.len() {
            assert_eq!(expires_at(&whole[..length]), None);
        }
        assert_eq!(expires_at(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
