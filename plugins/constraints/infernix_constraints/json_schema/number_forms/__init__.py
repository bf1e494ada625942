"""The forms in which numbers are written, each as a machine over characters.

States say how the digits read so far compare with the range's bounds, so that they coincide once that is settled,
and of which remainder they are.
"""
