"""Pictures of digits, 28 x 28 as those of MNIST, made here: the same seed always gives the same ones, and nothing has
to be downloaded. `python3 digits.py` shows a few."""

import numpy as np

SIZE = 28

GLYPHS = """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
""".split()


def digits(count, seed):
    """Returns `count` pictures, an array of (count, 28, 28) from 0 for black to 1 for white, and the digits they show.

    Each is turned, sheared, scaled and moved a little, drawn with a thin or a thick pen, and noisy."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)

    # Where in the glyph each pixel lies: the turned, sheared and scaled picture, back to front.
    angle, shear = random.uniform(-0.3, 0.3, (2, count, 1, 1))
    pixels_per_dot = random.uniform(2.2, 3.2, (2, count, 1, 1))
    shift = random.uniform(-3, 3, (2, count, 1, 1))
    y, x = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    y, x = y - shift[0], x - shift[1]
    y, x = y * np.cos(angle) - x * np.sin(angle), x * np.cos(angle) + y * np.sin(angle)
    x = x + shear * y
    ink = _interpolate(labels, y / pixels_per_dot[0] + 3, x / pixels_per_dot[1] + 2)

    pen = random.uniform(0.3, 0.6, (count, 1, 1))
    images = 1 / (1 + np.exp((pen - ink) * 12))
    images = images + random.normal(0, 0.12, images.shape)
    return np.clip(images, 0, 1).astype(np.float32), labels


def _interpolate(labels, row, column):
    """The glyphs between their dots, by distance; nothing outside of them."""
    rows, columns, border = 7, 5, 1
    glyphs = np.zeros((10, rows + 2 * border, columns + 2 * border))
    for digit in range(10):
        for line in range(rows):
            dots = GLYPHS[line * 10 + digit]
            glyphs[digit, border + line, border : border + columns] = [dot == "#" for dot in dots]

    row = np.clip(row + border, 0, rows + 2 * border - 1.001)
    column = np.clip(column + border, 0, columns + 2 * border - 1.001)
    top, left = row.astype(int), column.astype(int)
    down, right = row - top, column - left
    which = labels[:, None, None]
    return (
        glyphs[which, top, left] * (1 - down) * (1 - right)
        + glyphs[which, top, left + 1] * (1 - down) * right
        + glyphs[which, top + 1, left] * down * (1 - right)
        + glyphs[which, top + 1, left + 1] * down * right
    )


if __name__ == "__main__":
    for image, label in zip(*digits(5, seed=1)):
        print(f"a {label}:")
        for line in image:
            print("".join(" .:+#@"[int(value * 5.99)] for value in line).rstrip())
