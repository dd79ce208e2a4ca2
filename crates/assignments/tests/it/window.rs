//! Windows: the number of positions of a kernel along an axis, and the padding that it needs.

/// A kernel that moves along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The number of elements of the kernel.
    pub(crate) kernel: usize,
    /// The distance between neighboring elements of the kernel on the axis.
    pub(crate) dilation: usize,
    /// The distance between neighboring positions of the kernel; 0 counts as 1.
    pub(crate) stride: usize,
}

impl Window {
    /// The extent of the kernel on the axis, from its first to its last element, both included.
    pub(crate) fn span(self) -> usize {
        match self.kernel {
            0 => 0,
            kernel => self.dilation.saturating_mul(kernel - 1).saturating_add(1),
        }
    }

    /// The number of positions at which the kernel lies entirely within an axis of size `size`.
    pub(crate) fn valid_positions(self, size: usize) -> usize {
        size.checked_sub(self.span()).map_or(0, |room| room / self.stride.max(1) + 1)
    }

    /// The number of positions centered on every `stride`-th element. The kernel may extend beyond the axis
    /// by half its span.
    pub(crate) fn padded_positions(self, size: usize) -> usize {
        size.div_ceil(self.stride.max(1))
    }

    /// The left and right padding that the windows of [`padded_positions`](Window::padded_positions) need, in
    /// elements. The middle of the kernel's span, or the left one of its two middle elements, lies on the
    /// element at which the window is centered.
    pub(crate) fn padding(self, size: usize) -> (usize, usize) {
        let Some(last) = self.padded_positions(size).checked_sub(1) else { return (0, 0) };
        let left = self.span().saturating_sub(1) / 2;
        let end = (last * self.stride.max(1)).saturating_add(self.span());
        (left, end.saturating_sub(left).saturating_sub(size))
    }
}

#[test]
fn positions_are_those_that_fit() {
    for (kernel, dilation, stride) in
        (1..5).flat_map(|k| (1..4).flat_map(move |d| (1..4).map(move |s| (k, d, s))))
    {
        let window = Window { kernel, dilation, stride };
        for size in 1..14usize {
            let fits = |o: &usize| o * stride + dilation * (kernel - 1) < size;
            assert_eq!(window.valid_positions(size), (0..size).filter(fits).count(), "{window:?} {size}");
            let around = (0..size).step_by(stride).count();
            assert_eq!(window.padded_positions(size), around, "{window:?} {size}");
            let (left, right) = window.padding(size);
            let ends = (0..around).map(|o| (o * stride) as i64 - left as i64 + (window.span() - 1) as i64);
            let beyond = ends.max().unwrap_or(0) - (size as i64 - 1);
            assert_eq!((left, right as i64), ((window.span() - 1) / 2, beyond.max(0)), "{window:?} {size}");
        }
    }
    assert_eq!(Window { kernel: 0, dilation: 1, stride: 1 }.valid_positions(3), 4);
}
