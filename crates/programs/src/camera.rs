//! Matrices and cameras.
//!
//! World space is right-handed with y up. Clip space as in Direct3D: x and y in -w..w with y
//! up, z in 0..w from the near to the far plane, and w is the distance in the viewing direction.

/// Four rows of four; applied to column vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matrix(
    /// The rows.
    pub [[f32; 4]; 4],
);

impl Matrix {
    /// The identity matrix.
    pub const IDENTITY: Self = Self([
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]);

    /// Returns a translation by `offset`.
    #[must_use]
    pub fn translation(offset: [f32; 3]) -> Self {
        let mut matrix = Self::IDENTITY;
        for (row, offset) in matrix.0.iter_mut().zip(offset) {
            row[3] = offset;
        }
        matrix
    }

    /// Returns a uniform scaling.
    #[must_use]
    pub fn scale(factor: f32) -> Self {
        let mut matrix = Self::IDENTITY;
        for axis in 0..3 {
            matrix.0[axis][axis] = factor;
        }
        matrix
    }

    /// Returns a rotation about the x axis by `angle` radians.
    #[must_use]
    pub fn rotation_x(angle: f32) -> Self {
        let (sine, cosine) = sine_cosine(angle);
        Self([
            [1.0, 0.0, 0.0, 0.0],
            [0.0, cosine, -sine, 0.0],
            [0.0, sine, cosine, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ])
    }

    /// Returns a rotation about the y axis by `angle` radians.
    #[must_use]
    pub fn rotation_y(angle: f32) -> Self {
        let (sine, cosine) = sine_cosine(angle);
        Self([
            [cosine, 0.0, sine, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [-sine, 0.0, cosine, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ])
    }

    /// Returns the product that applies `first`, then this matrix.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        Self(std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                (0..4).map(|inner| self.0[row][inner] * first.0[inner][column]).sum()
            })
        }))
    }

    /// Applies the matrix to a point.
    #[must_use]
    pub fn apply(&self, point: [f32; 4]) -> [f32; 4] {
        self.0.map(|row| {
            row[0] * point[0] + row[1] * point[1] + row[2] * point[2] + row[3] * point[3]
        })
    }

    /// Applies the 3 by 3 part to a direction.
    #[must_use]
    pub fn turn(&self, direction: [f32; 3]) -> [f32; 3] {
        [0, 1, 2].map(|row| dot([self.0[row][0], self.0[row][1], self.0[row][2]], direction))
    }
}

/// A camera position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// Position of the eye.
    pub eye: [f32; 3],
    /// Point at which the camera looks.
    pub target: [f32; 3],
    /// Half of the view's height at distance 1: the tangent of half the vertical field of view.
    pub half_height: f32,
    /// Width of the image divided by its height.
    pub aspect: f32,
    /// Distance of the near plane.
    pub near: f32,
    /// Distance of the far plane.
    pub far: f32,
}

impl Camera {
    /// Returns the perspective projection from world space to clip space.
    #[must_use]
    pub fn clip_from_world(&self) -> Matrix {
        let depth = self.far / (self.far - self.near);
        let lens = Matrix([
            [1.0 / (self.half_height * self.aspect), 0.0, 0.0, 0.0],
            [0.0, 1.0 / self.half_height, 0.0, 0.0],
            [0.0, 0.0, depth, -depth * self.near],
            [0.0, 0.0, 1.0, 0.0],
        ]);
        lens.after(&self.view())
    }

    /// Returns the parallel projection from world space to clip space, as for a sun. `half_height`
    /// is half of the visible height at any distance.
    #[must_use]
    pub fn parallel_clip_from_world(&self) -> Matrix {
        let depth = 1.0 / (self.far - self.near);
        let lens = Matrix([
            [1.0 / (self.half_height * self.aspect), 0.0, 0.0, 0.0],
            [0.0, 1.0 / self.half_height, 0.0, 0.0],
            [0.0, 0.0, depth, -depth * self.near],
            [0.0, 0.0, 0.0, 1.0],
        ]);
        lens.after(&self.view())
    }

    /// Returns the right, up and forward unit vectors.
    #[must_use]
    pub fn axes(&self) -> [[f32; 3]; 3] {
        let forward = normalised(difference(self.target, self.eye));
        // A vertical view direction has no defined right vector.
        let vertical = forward[0].abs() + forward[2].abs() < 1e-6;
        let right =
            normalised(cross(forward, if vertical { [0.0, 0.0, -1.0] } else { [0.0, 1.0, 0.0] }));
        [right, cross(right, forward), forward]
    }

    /// Returns the transformation from world space to eye space: x right, y up, z forward.
    fn view(&self) -> Matrix {
        let [right, up, forward] = self.axes();
        let row = |axis: [f32; 3]| [axis[0], axis[1], axis[2], -dot(axis, self.eye)];
        Matrix([row(right), row(up), row(forward), [0.0, 0.0, 0.0, 1.0]])
    }
}

/// Returns sine and cosine. Computed in double precision, so that rounding hides almost all
/// differences between mathematical libraries.
pub(super) fn sine_cosine(angle: f32) -> (f32, f32) {
    let (sine, cosine) = f64::from(angle).sin_cos();
    (sine as f32, cosine as f32)
}

pub(super) fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(super) fn difference(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

/// `a + b * factor`.
pub(super) fn along(a: [f32; 3], b: [f32; 3], factor: f32) -> [f32; 3] {
    std::array::from_fn(|axis| a[axis] + b[axis] * factor)
}

/// Returns `vector` with length 1, or unchanged if its length is 0.
pub(super) fn normalised(vector: [f32; 3]) -> [f32; 3] {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 { vector.map(|axis| axis / length) } else { vector }
}
