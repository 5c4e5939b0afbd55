"""The variables of ResNet-50, for ``refimpl plan``. This model cannot be trained."""

from models.variable import Variable


class ResNet50:
    """The variables of ResNet-50 (He et al. 2016, table 1), with one batch normalisation variable for each layer."""

    def __init__(self):
        self.variables, channels = [Variable("stem", (7 * 7 * 3, 64)), Variable("stem_norm", (2, 64))], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for block in range(count):
                shapes = {"reduce": (channels, width), "middle": (9 * width, width), "expand": (width, 4 * width)}
                if block == 0:
                    shapes["shortcut"] = (channels, 4 * width)
                for name, shape in shapes.items():
                    layer = f"{stage}.{block}.{name}"
                    self.variables += [Variable(layer, shape), Variable(f"{layer}_norm", (2, shape[1]))]
                channels = 4 * width
        self.variables += [Variable("head", (channels, 1000)), Variable("head_bias", (1000,))]
