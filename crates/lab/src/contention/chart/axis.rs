//! Axes: positions, ticks and tick labels. Pure.

/// Maps values to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    is_logarithmic: bool,
    low: f64,
    high: f64,
    /// The pixels of the lowest and the highest value.
    from: f64,
    to: f64,
}

/// The lower end of logarithmic time axes.
const SMALLEST_MS: f64 = 0.1;

const TICKS_MAX: u32 = 20;

impl Axis {
    /// From 0 to a round number that is at least `high`.
    pub(super) fn linear(high: f64, (from, to): (f64, f64)) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = step(high);
        Self { is_logarithmic: false, low: 0.0, high: (high / step).ceil() * step, from, to }
    }

    /// From a round number that is at most `low` to one that is at least `high`.
    pub(super) fn logarithmic((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let low = if low.is_finite() { low.max(SMALLEST_MS) } else { SMALLEST_MS };
        let high = if high.is_finite() { high.max(low) } else { low };
        let low = round_numbers(low / 10.0).filter(|round| *round <= low).last().unwrap_or(low);
        let high =
            round_numbers(high / 10.0).find(|round| *round >= high && *round > low).unwrap_or(low * 10.0);
        Self { is_logarithmic: true, low, high, from, to }
    }

    /// The position of a value. Values outside the axis are moved to its end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = if self.is_logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }

    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// The comparisons leave room for the rounding of floating point numbers.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let is_inside = |tick: &f64| *tick <= self.high * 1.001;
        if self.is_logarithmic {
            let ticks = round_numbers(self.low / 10.0).skip_while(|round| *round < self.low * 0.999);
            ticks.take_while(is_inside).collect()
        } else {
            let step = step(self.high);
            (0..=TICKS_MAX).map(|number| f64::from(number) * step).take_while(is_inside).collect()
        }
    }
}

/// 1, 2 or 5 times a power of ten, so that `high` has four to eight steps.
fn step(high: f64) -> f64 {
    let tenth = 10.0_f64.powf((high / 10.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0, 20.0]
        .map(|factor| factor * tenth)
        .into_iter()
        .find(|step| high / step <= 8.0)
        .unwrap_or(high)
}

/// 1, 2 and 5 times every power of ten, beginning below `low`.
fn round_numbers(low: f64) -> impl Iterator<Item = f64> {
    let power = low.log10().floor();
    (0..30).flat_map(move |number| {
        [1.0, 2.0, 5.0].map(|factor| factor * 10.0_f64.powf(power + f64::from(number)))
    })
}

/// A time in milliseconds or seconds.
pub(super) fn time_label(ms: f64) -> String {
    if ms >= 1_000.0 { format!("{} s", decimal(ms / 1_000.0)) } else { format!("{} ms", decimal(ms)) }
}

/// At most two decimals, without trailing zeros.
pub(super) fn decimal(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few_and_cover_all_values() {
        for high in [0.3, 1.0, 3.0, 7.0, 42.0, 99.0, 100.0, 1_234.0, 60_000.0] {
            let axis = Axis::linear(high, (0.0, 100.0));
            let ticks = axis.ticks();
            assert!((3..=10).contains(&ticks.len()), "{high}: {ticks:?}");
            assert!(*ticks.last().unwrap() >= high * 0.999, "{high}: {ticks:?}");
        }
        let ticks = Axis::logarithmic((0.7, 340.0), (0.0, 100.0)).ticks();
        let labels: Vec<_> = ticks.into_iter().map(time_label).collect();
        let expected =
            ["0.5 ms", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms"];
        assert_eq!(labels, expected);
    }

    #[test]
    fn the_lowest_and_highest_values_are_at_the_ends() {
        let axis = Axis::logarithmic((1.0, 100.0), (10.0, 210.0));
        assert_eq!((axis.position(1.0), axis.position(100.0)), (10.0, 210.0));
        assert!((axis.position(10.0) - 110.0).abs() < 0.01);
        let axis = Axis::linear(100.0, (200.0, 0.0));
        assert_eq!((axis.position(0.0), axis.position(50.0), axis.position(100.0)), (200.0, 100.0, 0.0));
    }

    #[test]
    fn every_number_has_a_finite_position() {
        for axis in [
            Axis::linear(f64::NAN, (0.0, 10.0)),
            Axis::linear(0.0, (0.0, 10.0)),
            Axis::logarithmic((0.0, 0.0), (0.0, 10.0)),
            Axis::logarithmic((f64::NAN, f64::INFINITY), (0.0, 10.0)),
            Axis::logarithmic((5.0, 5.0), (0.0, 10.0)),
        ] {
            for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 3.0] {
                assert!(axis.position(value).is_finite(), "{axis:?} {value}");
            }
            assert!(axis.ticks().len() < 100);
        }
    }

    #[test]
    fn long_times_are_labelled_in_seconds() {
        let labels = [0.5, 1.0, 20.0, 1_000.0, 2_500.0].map(time_label);
        assert_eq!(labels, ["0.5 ms", "1 ms", "20 ms", "1 s", "2.5 s"]);
    }
}
