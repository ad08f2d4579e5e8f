//! Where ticks stand, and what they say. Pure.

/// From the smallest value to the largest, on a length of pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    kind: Kind,
    low: f64,
    high: f64,
    /// Where the smallest stands, and the largest.
    from: f64,
    to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    /// Every factor of ten is as long as every other.
    Logarithmic,
}

/// Below this, times are as good as nothing.
const SMALLEST_MS: f64 = 0.1;

const TICKS_MAX: u32 = 20;

impl Axis {
    /// From nothing to a round number that is at least `high`.
    pub(super) fn linear(high: f64, (from, to): (f64, f64)) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = step(high);
        Self { kind: Kind::Linear, low: 0.0, high: (high / step).ceil() * step, from, to }
    }

    /// From a round number that is at most `low` to one that is at least `high`.
    pub(super) fn logarithmic((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let low = if low.is_finite() { low.max(SMALLEST_MS) } else { SMALLEST_MS };
        let high = if high.is_finite() { high.max(low) } else { low };
        let low = rounds(low / 10.0).filter(|round| *round <= low).last().unwrap_or(low);
        let high = rounds(high / 10.0).find(|round| *round >= high && *round > low).unwrap_or(low * 10.0);
        Self { kind: Kind::Logarithmic, low, high, from, to }
    }

    /// Where a value stands. What lies outside stands at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + (self.to - self.from) * share
    }

    pub(super) fn high(&self) -> f64 {
        self.high
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = step(self.high);
                // The high end is a whole number of steps; a hair more, because they are no exact numbers.
                let inside = |tick: &f64| *tick <= self.high * 1.000_1;
                (0..=TICKS_MAX).map(|number| f64::from(number) * step).take_while(inside).collect()
            }
            Kind::Logarithmic => {
                let inside = rounds(self.low / 10.0).skip_while(|round| *round < self.low * 0.999);
                inside.take_while(|round| *round <= self.high * 1.001).collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, so that there are four to ten of them in `high`.
fn step(high: f64) -> f64 {
    let tenth = 10.0_f64.powf((high / 10.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0, 20.0]
        .map(|times| times * tenth)
        .into_iter()
        .find(|step| high / step <= 8.0)
        .unwrap_or(high)
}

/// 1, 2 and 5 times every power of ten, from below `low` on.
fn rounds(low: f64) -> impl Iterator<Item = f64> {
    let power = low.log10().floor();
    (0..30)
        .flat_map(move |number| [1.0, 2.0, 5.0].map(|times| times * 10.0_f64.powf(power + f64::from(number))))
}

/// A time, in the unit in which people say it.
pub(super) fn time(ms: f64) -> String {
    if ms >= 1_000.0 { format!("{} s", plain(ms / 1_000.0)) } else { format!("{} ms", plain(ms)) }
}

/// A number without noughts that say nothing.
pub(super) fn plain(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few_and_cover_everything() {
        for high in [0.3, 1.0, 3.0, 7.0, 42.0, 99.0, 100.0, 1_234.0, 60_000.0] {
            let axis = Axis::linear(high, (0.0, 100.0));
            let ticks = axis.ticks();
            assert!((3..=10).contains(&ticks.len()), "{high}: {ticks:?}");
            assert!(*ticks.last().unwrap() >= high * 0.999, "{high}: {ticks:?}");
        }
        let ticks = Axis::logarithmic((0.7, 340.0), (0.0, 100.0)).ticks();
        let words: Vec<_> = ticks.into_iter().map(time).collect();
        let expected =
            ["0.5 ms", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms"];
        assert_eq!(words, expected);
    }

    #[test]
    fn the_ends_of_the_axis_are_the_ends_of_its_values() {
        let axis = Axis::logarithmic((1.0, 100.0), (10.0, 210.0));
        assert_eq!((axis.place(1.0), axis.place(100.0)), (10.0, 210.0));
        assert!((axis.place(10.0) - 110.0).abs() < 0.01);
        let axis = Axis::linear(100.0, (200.0, 0.0));
        assert_eq!((axis.place(0.0), axis.place(50.0), axis.place(100.0)), (200.0, 100.0, 0.0));
    }

    #[test]
    fn nonsense_has_a_place_too() {
        for axis in [
            Axis::linear(f64::NAN, (0.0, 10.0)),
            Axis::linear(0.0, (0.0, 10.0)),
            Axis::logarithmic((0.0, 0.0), (0.0, 10.0)),
            Axis::logarithmic((f64::NAN, f64::INFINITY), (0.0, 10.0)),
            Axis::logarithmic((5.0, 5.0), (0.0, 10.0)),
        ] {
            for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 3.0] {
                assert!(axis.place(value).is_finite(), "{axis:?} {value}");
            }
            assert!(axis.ticks().len() < 100);
        }
    }

    #[test]
    fn times_are_said_in_their_unit() {
        assert_eq!([0.5, 1.0, 20.0, 1_000.0, 2_500.0].map(time), ["0.5 ms", "1 ms", "20 ms", "1 s", "2.5 s"]);
    }
}
